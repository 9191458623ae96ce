"""Layouts of blocks by OpenROAD: floorplan, placement, clock tree, routing, and what they cost."""
