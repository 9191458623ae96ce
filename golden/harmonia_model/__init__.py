"""A whole decoder-only language model as programs of the Harmonia accelerator."""
