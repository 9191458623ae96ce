"""A small system around an accelerator: a RISC-V processor, its memory, what joins them."""
