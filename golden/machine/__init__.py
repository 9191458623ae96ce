"""Programs, common to all accelerators: instruction words, execution, timing, assembly."""
