"""Energy of a whole DECA."""
