"""A format of one's own: 16 levels that are dense near zero, as a look-up table of 4 bits has them.

tilewright compare format --with lut_format.py:Levels
tilewright llm llama-3.2-1b --engine software --scheme lut_format.py:Levels
tilewright roofsurface --scheme mxfp4 --scheme lut_format.py:Levels
"""

import numpy as np

NEGATIVE = (-1.0, -0.70, -0.53, -0.39, -0.28, -0.18, -0.09)
POSITIVE = (0.08, 0.16, 0.25, 0.34, 0.44, 0.56, 0.72, 1.0)
LEVELS = np.array([*NEGATIVE, 0.0, *POSITIVE])


class Levels:
    """Each value is the nearest of 16 levels, times the largest magnitude of its 64 values."""

    name = "levels"
    bits = 4
    scale_bits = 16
    group = 64
    # 512-bit ones for 512 codes: 16 times two to unpack 32 codes, a permutation that looks up their
    # levels, and two to scale them.
    vector_operations = 16 * 5

    def encode(self, values):
        """Return the codes of ``values`` and the fp16 patterns of their groups' scales."""
        blocks = values.reshape(*values.shape[:-1], -1, self.group)
        scales = np.abs(blocks).max(-1).astype(np.float16)
        ratio = blocks / np.maximum(scales.astype(float), 1e-12)[..., None]
        codes = np.abs(ratio[..., None] - LEVELS).argmin(-1)
        return codes.reshape(values.shape), scales.view(np.uint16).astype(np.int64)

    def decode(self, codes, scales):
        """Return the values that codes and scales stand for."""
        scale = np.repeat(scales.astype(np.uint16).view(np.float16), self.group, axis=-1)
        return LEVELS[codes] * scale.astype(float)
