"""A whole decoder-only language model as programs of the Anda accelerator."""
