"""From the shape of a language model to programs of an accelerator, once for all accelerators."""
