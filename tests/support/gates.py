"""A block as gates, evaluated in numpy for 64 cases per machine word.

Yosys turns the RTLIL into two-input gates and multiplexers without optimising for any technology.
Tens of thousands of cases then cost milliseconds, which makes whole operand spaces affordable.
"""

import json
import tempfile
from functools import lru_cache
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.block import BlockParams, Field
from tilewright.golden.payload import Columns
from tilewright.synth.emit import to_rtlil
from tilewright.synth.yosys import run_yosys

Planes = NDArray[np.uint64]  # (bits, words): row k holds bit k of every case

_FUNCTIONS = {
    "$_BUF_": lambda a: a,
    "$_NOT_": lambda a: ~a,
    "$_AND_": lambda a, b: a & b,
    "$_OR_": lambda a, b: a | b,
    "$_XOR_": lambda a, b: a ^ b,
    "$_XNOR_": lambda a, b: ~(a ^ b),
    "$_NAND_": lambda a, b: ~(a & b),
    "$_NOR_": lambda a, b: ~(a | b),
    "$_ANDNOT_": lambda a, b: a & ~b,
    "$_ORNOT_": lambda a, b: a | ~b,
    "$_MUX_": lambda a, b, s: a ^ ((a ^ b) & s),
}


class Gates:
    """The gates of a module, in signal order; registers end and start paths."""

    def __init__(self, rtlil: str, top: str):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "top.il").write_text(rtlil)
            run_yosys(
                [
                    "read_rtlil top.il",
                    f"synth -flatten -noabc -top {top}",
                    "opt_clean -purge",
                    "simplemap",
                    "write_json top.json",
                ],
                folder,
            )
            module = json.loads((folder / "top.json").read_text())["modules"][top]
        self.ports = {name: port["bits"] for name, port in module["ports"].items()}
        cells = [(c["type"], c["connections"]) for c in module["cells"].values()]
        self._gates = _in_signal_order([c for c in cells if c[0] in _FUNCTIONS])
        self._registers = [pins for kind, pins in cells if kind not in _FUNCTIONS]

    def __len__(self) -> int:
        return len(self._gates)

    @property
    def depth(self) -> int:
        """Gates on the longest path from an input or a register to an output or a register."""
        levels: dict[int | str, int] = {}
        for _, pins in self._gates:
            sources = [levels.get(pins[pin][0], 0) for pin in pins if pin != "Y"]
            levels[pins["Y"][0]] = 1 + max(sources)
        return max(levels.values(), default=0)

    def run(self, inputs: dict[str, Planes]) -> dict[str, Planes]:
        """Every port of a module without registers; inputs that are not given are 0."""
        assert set(inputs) <= set(self.ports), f"ports are {sorted(self.ports)}"
        assert not self._registers, f"{len(self._registers)} registers are not combinational"
        words = next(iter(inputs.values())).shape[1]
        zeros = np.zeros(words, np.uint64)
        values: dict[int | str, NDArray] = {"0": zeros, "1": ~zeros, "x": zeros}
        for name, bits in self.ports.items():
            for k, bit in enumerate(bits):
                values[bit] = inputs[name][k] if name in inputs else values.get(bit, zeros)
        for kind, pins in self._gates:
            sources = [values[pins[pin][0]] for pin in ("A", "B", "S") if pin in pins]
            values[pins["Y"][0]] = _FUNCTIONS[kind](*sources)
        return {name: np.stack([values[bit] for bit in bits]) for name, bits in self.ports.items()}


@lru_cache(maxsize=8)  # tests that follow each other compare the same blocks
def gates_of(params: BlockParams) -> Gates:
    return Gates(to_rtlil(params), params.slug)


def evaluate(params: BlockParams, columns: Columns, gates: Gates | None = None) -> Columns:
    """The answers of a combinational block on port ``o`` to ``columns`` of cases on port ``i``.

    ``gates`` are evaluated in place of the block's own.
    """
    (source,), (target,) = params.inputs, params.outputs
    cases = len(next(iter(columns.values())))
    planes = [
        to_planes(element, field.bits)
        for field in source.fields
        for element in np.reshape(columns[field.name], (cases, -1)).T
    ]
    results = (gates or gates_of(params)).run({"i__payload": np.concatenate(planes)})["o__payload"]
    answer: Columns = {}
    for field in target.fields:
        elements = [results[k : k + field.bits] for k in range(0, field.total_bits, field.bits)]
        answer[field.name] = _column(field, [from_planes(e, cases) for e in elements])
        results = results[field.total_bits :]
    return answer


def to_planes(values: NDArray, bits: int) -> Planes:
    """The lowest ``bits`` bits of each value, in two's complement."""
    words = np.asarray(values).astype(np.int64, casting="unsafe")
    places = (words >> np.arange(bits)[:, None] & 1).astype(np.uint8)
    padded = np.pad(places, ((0, 0), (0, -len(words) % 64)))
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def from_planes(planes: Planes, cases: int) -> NDArray[np.uint64]:
    """Inverse of :func:`to_planes` for values that are not negative."""
    places = np.unpackbits(planes.view(np.uint8), axis=1, bitorder="little", count=cases)
    weights = np.uint64(1) << np.arange(len(planes), dtype=np.uint64)
    return weights @ places.astype(np.uint64)


def _column(field: Field, elements: list[NDArray]) -> NDArray:
    if field.signed:
        unused = 64 - field.bits
        elements = [(e << np.uint64(unused)).view(np.int64) >> np.int64(unused) for e in elements]
    return elements[0] if field.count is None else np.stack(elements, axis=1)


def _in_signal_order(gates: list) -> list:
    driver = {pins["Y"][0]: (kind, pins) for kind, pins in gates}
    sources = {
        y: [p[0] for pin, p in pins.items() if pin != "Y"] for y, (_, pins) in driver.items()
    }
    return [driver[bit] for bit in TopologicalSorter(sources).static_order() if bit in driver]
