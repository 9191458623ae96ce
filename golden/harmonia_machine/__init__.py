"""The Harmonia accelerator: instructions, what a program leaves in memory, its cycles."""
