"""Handover of blocks to place-and-route flows, with all files that these read."""
