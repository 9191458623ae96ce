"""Sparse models: ``sparsify`` for any PyTorch model, fused layers for those of LLaMA's kind.

In a model of Hugging Face Transformers whose attention and MLP are LLaMA's, the projections of
queries, keys and values become one layer, gates and values become another that gives their product,
and norms and rotary positions become one operator each. Roundings stay where they were.
"""

# Annotations stay text, so that the documentation can be built where PyTorch is not installed.
from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from typing import TypeVar

from torch import nn

from tilewright.kernels.forms import check_form
from tilewright.kernels.fused import fuse_small_steps, sites
from tilewright.kernels.torch_layers import SparseLinear

Model = TypeVar("Model", bound=nn.Module)
Progress = Callable[[str], None]


def sparsify(
    model: Model,
    sparsity: float | None = 0.5,
    *,
    form: str = "bf16",
    threads: int | None = None,
    skip: Collection[str] = (),
    fuse: bool = True,
    one_call: bool = True,
    progress: Progress | None = None,
) -> Model:
    """Replace every linear layer of ``model`` in place by a packed one; returns ``model``.

    Parameters
    ----------
    sparsity:
        The share of each layer's weights that becomes zero, those of least magnitude; weights that
        are zero already count. None takes the weights as they are.
    form:
        "bf16"; "int8" with one scale per output and activations quantised row by row; or a scheme
        of DECA such as "bf8" or "mxfp4".
    threads:
        As many as PyTorch uses, by default.
    skip:
        Names of layers that stay. One that cannot be replaced stays too, with a warning that says
        why.
    fuse:
        Join the projections of attention and MLP where the model is of a known family.
    one_call:
        Send a token through all decoder layers of a fused model in one call, with attention of the
        library's own, whose last bits are not PyTorch's. Where that is not possible, and with
        False, it goes layer by layer, with PyTorch's attention.
    progress:
        Told the name of each layer before it is packed.

    Each layer's dense weights are freed as soon as it is packed.
    """
    if sparsity is not None and not 0 <= sparsity <= 1:
        raise ValueError(f"sparsity must be 0..1, not {sparsity!r}")
    check_form(form)
    replaced = 0
    for site in list(sites(model, skip, fuse)):
        if progress is not None:
            progress(site.name)
        try:
            site.pack(sparsity, form, threads)
        except (ValueError, TypeError) as error:
            warnings.warn(f"{site.name} stays dense: {error}", stacklevel=2)
            continue
        replaced += 1
    if fuse:
        fuse_small_steps(model, one_call=one_call)
    if replaced:
        _note(model)
    else:
        warnings.warn("no linear layer was replaced", stacklevel=2)
    return model


def _note(model: nn.Module) -> None:
    """Let ``save_pretrained`` of Transformers write all that ``from_pretrained`` needs."""
    config = getattr(model, "config", None)
    if config is None or not hasattr(model, "save_pretrained"):
        return
    from tilewright.kernels.checkpoints import SparseConfig, describe

    config.quantization_config = SparseConfig(describe(model))
    if isinstance(getattr(model, "lm_head", None), SparseLinear):
        config.tie_word_embeddings = False  # the packed head is not the embedding
        model._tied_weights_keys = None
