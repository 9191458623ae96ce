"""Blocks on real FPGAs: Yosys maps them to the device's cells, nextpnr places and routes them."""
