"""Cells of a netlist placed in rows, and what their wires do to delay and energy.

An estimate before routing: every wire has an estimated length, and no wire has a layer or a track.
"""
