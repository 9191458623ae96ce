"""An accelerator on an FPGA by itself: its memory in block RAM and a serial line to a host."""
