"""Tools that every package uses."""
