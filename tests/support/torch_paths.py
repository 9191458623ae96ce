"""Layers of PyTorch on every compiled path against the portable one.

    python -m tests.support.torch_paths

Gates, biases, quantised activations and many rows; prints the paths it has compared. It has a
process of its own for the same reason as ``kernel_paths``.
"""

import numpy as np
import torch

from tilewright.kernels import Path, available_paths
from tilewright.kernels.library import library
from tilewright.kernels.torch_layers import SparseLinear

FORMS = ("bf16", "int8", "bf8", "mxfp4", "mxfp4,group=16")
ALWAYS, DEFAULT = 1, 0  # rows from which on AMX takes strips by pairs; 0: as measured
LITTLE, USUAL = 1, 512 << 10  # bytes of activations that pairs go through one after the other


def layers(form, gated):
    torch.manual_seed(5)
    for inputs, outputs in ((70, 48), (544, 64), (2304, 32), (4160, 112)):
        many = [torch.nn.Linear(inputs, outputs).to(torch.bfloat16) for _ in range(1 + gated)]
        yield SparseLinear.of(many, 0.5, form, gated=gated)


def bits(tensor):
    return tensor.detach().view(torch.int16).numpy()


def near(a, b):
    """Equal but for the exponential of a gate, whose last bit may move a rounding to bf16."""
    return bool((a.float() - b.float()).abs().le(2**-7 * b.float().abs() + 1e-30).all())


def compare(paths):
    for form in FORMS:
        for gated in (False, True):
            for layer in layers(form, gated):
                ready = layer.prepared()
                for batch in (1, 2, 3, 17, 33, 70, 130):
                    x = torch.randn(batch, layer.in_features, dtype=torch.bfloat16)
                    order = ready.matrix.default_order
                    for path in paths:
                        for limit, size in ((ALWAYS, 0), (ALWAYS, LITTLE), (DEFAULT, LITTLE)):
                            library().tw_set_many_rows(limit)
                            library().tw_set_pair_bytes(size)
                            ready.path = path
                            got = layer(x)
                            same_order = order(batch, path)
                            ready.path = Path.PORTABLE
                            ready.matrix.default_order = lambda *_, o=same_order: o
                            want = layer(x)
                            del ready.matrix.default_order
                            what = (form, gated, layer.in_features, batch, path, limit, size)
                            if gated:
                                assert near(got, want), what
                            else:
                                assert np.array_equal(bits(got), bits(want)), what
    library().tw_set_many_rows(DEFAULT)
    library().tw_set_pair_bytes(USUAL)


def main():
    torch.set_num_threads(4)
    paths = available_paths()[1:]
    compare(paths or available_paths())
    print(*(path.name.lower() for path in available_paths()))


if __name__ == "__main__":
    main()
