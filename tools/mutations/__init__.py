"""Errors planted in the RTL of blocks, and whether the blocks' benches find them."""
