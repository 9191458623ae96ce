"""A linear layer that converts its operands: ``torch.nn.Linear`` with another forward pass.

Its parameters are the ones the layer had, under the same names, so a ``state_dict`` is unchanged;
weights are converted on the way into the product, unless they were converted once and for all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from tilewright.golden.deca.scheme import resolve_scheme
from tilewright.golden.formats import NumberFormat
from tilewright.torch.config import (
    BlockActivation,
    InScheme,
    IntegerWeight,
    LinearFormat,
    OwnFormat,
)
from tilewright.torch.convert import (
    Book,
    Tensor,
    along_inputs,
    book_of,
    compressed_weights,
    integer_values,
    quantise_integers,
    straight_through,
    to_block_float,
)
from tilewright.torch.modules import call_through, device_of, weight_of

_TABLES = ("thresholds", "codes", "values")
BF16_BITS = 8  # significant bits of a bf16 value


class FormatLinear(torch.nn.Linear):
    """A linear layer in a number format; made of a ``torch.nn.Linear`` in place.

    The converted operands are multiplied in the dtype of the layer, or in float32
    where bf16 cannot hold an activation of more than 8 bits. A float32 layer multiplies the exact
    values. In fp16 and bf16 integer weights times their scale are rounded to the dtype: at most
    2^-11 and 2^-8 of each weight; sums have the order of the device's library.
    """

    format: LinearFormat
    baked: bool  # the weights are converted already
    rows: Tensor | None  # factors of the outputs, folded into the weights before conversion
    weight_book: Book | None
    activation_book: Book | None
    in_own: tuple[int, Tensor] | None  # version of the weights, and they in a format of numpy

    def forward(self, input: Tensor) -> Tensor:
        values = self.converted_input(input)
        weight, bias = self.converted_weight(values.dtype), self.bias
        if bias is not None:
            bias = (bias if self.rows is None else bias * self.rows).to(values.dtype)
        return torch.nn.functional.linear(values, weight, bias).to(input.dtype)

    def converted_input(self, input: Tensor) -> Tensor:
        """The operand that replaces ``input`` in the product."""
        activation = self.format.activation
        if activation is None:
            return input
        if isinstance(activation, BlockActivation):
            # bf16 holds mantissas of up to 8 bits exactly; longer ones are multiplied in float32.
            long = activation.bits > BF16_BITS and input.dtype == torch.bfloat16
            dtype = torch.float32 if long else input.dtype
            found = to_block_float(input.detach(), activation.group, activation.bits, dtype)
        elif isinstance(activation, OwnFormat):
            found = _by_numpy(activation.form, input.detach()).to(input.dtype)
        else:
            found = along_inputs(self._book("activation"), input.detach(), input.dtype)
        return straight_through(input, found) if self.format.straight_through else found

    def converted_weight(self, dtype: torch.dtype | None = None) -> Tensor:
        """The weights of the product, in its dtype: float32 if none is given."""
        weight = self.weight if self.rows is None else self.weight * self.rows[:, None]
        form, kind = self.format.weight, dtype or torch.float32
        if form is None or self.baked:
            return weight.to(kind)
        if isinstance(form, IntegerWeight):
            found = integer_values(weight.detach(), form.bits, form.group, kind)
        elif isinstance(form, OwnFormat):
            found = self._own_weight(weight, form.form).to(kind)
        else:
            book = self._book("weight")
            found = compressed_weights(book, weight.detach(), form.density).to(kind)
        return straight_through(weight, found).to(kind) if self.format.straight_through else found

    def _own_weight(self, weight: Tensor, form: NumberFormat) -> Tensor:
        """Converted once for each version of the parameter: numpy is slow."""
        if self.rows is not None:
            return _by_numpy(form, weight.detach())
        if self.in_own is None or self.in_own[0] != weight._version:
            self.in_own = weight._version, _by_numpy(form, weight.detach())
        return self.in_own[1].to(weight.device)

    def _book(self, operand: str) -> Book:
        tables = {name: getattr(self, f"{operand}_{name}") for name in _TABLES}
        return replace(getattr(self, f"{operand}_book"), **tables)

    def extra_repr(self) -> str:
        form = self.format
        return f"{super().extra_repr()}, activation={form.activation}, weight={form.weight}"


def convert_linear(module: torch.nn.Linear, form: LinearFormat, *, bake: bool = False) -> None:
    """Make a layer convert its operands; with ``bake`` its weights are converted now, for good."""
    module.__class__ = FormatLinear
    assert isinstance(module, FormatLinear)
    call_through(module, FormatLinear)
    module.format = form
    module.baked = False
    module.rows = None
    module.weight_book = module.activation_book = module.in_own = None
    device = device_of(module)
    for operand, part in (("weight", form.weight), ("activation", form.activation)):
        scheme = getattr(part, "scheme", None)
        if scheme is not None:
            book = book_of(resolve_scheme(scheme), device)
            setattr(module, f"{operand}_book", book)
            for name in _TABLES:
                module.register_buffer(f"{operand}_{name}", getattr(book, name), persistent=False)
    if bake and form.weight is not None:
        with torch.no_grad():
            module.weight.copy_(module.converted_weight())
        module.baked = True


def restore_linear(module: FormatLinear) -> None:
    """Undo ``convert_linear``; the weights of a baked layer stay converted."""
    for operand in ("weight", "activation"):
        if getattr(module, f"{operand}_book") is not None:
            for name in _TABLES:
                delattr(module, f"{operand}_{name}")
    for name in ("format", "baked", "rows", "weight_book", "activation_book", "in_own"):
        if name in module._buffers:
            delattr(module, name)
        else:
            module.__dict__.pop(name, None)
    module.__class__ = torch.nn.Linear
    call_through(module, torch.nn.Linear)


def weights_problem(module: torch.nn.Linear, form: LinearFormat) -> str | None:
    """Why the weights cannot be converted, in words that follow the module's name."""
    weight = weight_of(module)
    if weight.is_meta:
        return None
    bad = ~torch.isfinite(weight)
    if bool(bad.any()):
        row, column = (int(k) for k in bad.nonzero()[0])
        value = float(weight[row, column])
        return f"weight {value} at row {row}, column {column} is no finite number"
    if isinstance(form.weight, IntegerWeight):
        scales = quantise_integers(weight, form.weight.bits, form.weight.group).scales
        if bool((scales == 0).any()):
            return "a group of weights is too small for an fp16 scale"
        if bool(torch.isinf(scales).any()):
            return "a group of weights is too large for an fp16 scale"
    if isinstance(form.weight, InScheme) and weight.dtype == torch.float64:
        return "weights must be of at most 32 bits, not float64"
    if isinstance(form.weight, OwnFormat):
        try:
            _by_numpy(form.weight.form, weight[:1])
        except ValueError as error:
            return str(error)
    return None


@torch.compiler.disable
def _by_numpy(form: NumberFormat, values: Tensor) -> Tensor:
    found = form.through(values.float().cpu().numpy())
    return torch.from_numpy(found.astype(np.float32)).to(values.device)
