"""RTL of the whole Harmonia accelerator."""
