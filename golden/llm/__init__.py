"""Inference of small language models in numpy, with number formats where the hardware has them."""
