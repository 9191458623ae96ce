"""A GEMM that a RISC-V processor has an accelerator compute: firmware in C, and how it is run."""
