"""The Anda accelerator around the matrix unit: vector unit, buffers, control, memory port."""
