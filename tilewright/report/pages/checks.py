"""Checks made while the report is built: golden models against numpy, RTL against golden models."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.arith import add, convert, int_to_float, multiply
from tilewright.golden.params.arith import ARITH_BLOCKS, PipelinedParams
from tilewright.golden.params.formats import FP16, FP32, FloatFormat
from tilewright.golden.payload import pack
from tilewright.golden.vectors import operands
from tilewright.report.html import Markup, code, join, note, paragraph, section, table, verdict
from tilewright.report.page import Context, Page
from tilewright.verify import stream_bench_of

TITLE = "Live checks"
POSITION = 60

SEED = 20  # any number: the same operands on every run
RTL_CASES = 300  # per block; seconds for all of them in Amaranth's simulator
Array = NDArray[Any]  # of patterns, or of the values that they stand for
Operation = Callable[[FloatFormat, FloatFormat, FloatFormat, Array, Array], Array]
Check = Callable[[int], dict[str, Any]]
NATIVE = {FP16.name: np.float16, FP32.name: np.float32}  # formats that numpy computes with


def build(context: Context) -> Page:
    golden = [
        check(context.cases)
        for check in context.track("golden against numpy", GOLDEN_CHECKS, lambda c: c.__name__)
    ]
    rtl = [
        _check_rtl(params)
        for params in context.track(
            "RTL against golden",
            [cls.preset(latency=0) for cls in ARITH_BLOCKS],
            lambda params: params.block,
        )
    ]
    failures = [f"{row['what']}: {row['mismatch']}" for row in [*golden, *rtl] if row["mismatch"]]
    body = join(
        [
            section(
                "Golden models against numpy",
                paragraph(
                    "The reference is the IEEE 754 arithmetic of the processor, through numpy,"
                    " which shares no code with the golden models. Results are compared bit for"
                    " bit; any NaN counts as the canonical NaN of the format."
                ),
                _table(golden),
            ),
            section(
                "RTL against golden models",
                paragraph(
                    "Every arithmetic block, with its default preset and no pipeline registers,"
                    " runs in Amaranth's own simulator. The test suite covers registers, stalls,"
                    " other formats, and the emitted Verilog on two simulators."
                ),
                _table(rtl),
            ),
            note(f"Source: run while this page was built, seed {SEED}."),
        ]
    )
    return Page(
        summary=f"{len(golden) + len(rtl) - len(failures)} of {len(golden) + len(rtl)} checks,"
        " made while this report was built, found no difference.",
        body=body,
        data={"seed": SEED, "golden_against_numpy": golden, "rtl_against_golden": rtl},
        failures=failures,
    )


def _table(rows: list[dict[str, Any]]) -> Markup:
    return table(
        ("Check", "Cases", "Result"),
        [
            (
                code(r["what"]),
                r["cases"],
                verdict(not r["mismatch"], r["mismatch"] or "no difference"),
            )
            for r in rows
        ],
    )


def _row(what: str, ours: Array, theirs: Array, *inputs: Array) -> dict[str, Any]:
    """The outcome of one comparison of bit patterns, with the first difference in hexadecimal."""
    wrong = np.flatnonzero(ours != theirs)
    mismatch = None
    if wrong.size:
        k = wrong[0]
        shown = ", ".join(f"{int(x[k]):#x}" for x in inputs)
        mismatch = f"case {k} ({shown}): {int(ours[k]):#x}, not {int(theirs[k]):#x}"
    return {"what": what, "cases": len(ours), "mismatch": mismatch}


def _floats(fmt: FloatFormat, bits: Array) -> Array:
    return bits.view(NATIVE[fmt.name])


def _patterns(fmt: FloatFormat, values: Array) -> Array:
    bits = values.astype(NATIVE[fmt.name]).view(f"u{fmt.bits // 8}")
    return np.where(np.isnan(values), bits.dtype.type(fmt.nan_bits), bits)


def _operation(name: str, fmt: FloatFormat, ours: Operation, theirs: np.ufunc) -> Check:
    def check(cases: int) -> dict[str, Any]:
        a, b = operands([fmt, fmt], np.random.default_rng(SEED), cases)
        with np.errstate(all="ignore"):
            reference = theirs(_floats(fmt, a), _floats(fmt, b))
        return _row(check.__name__, ours(fmt, fmt, fmt, a, b), _patterns(fmt, reference), a, b)

    check.__name__ = f"{name} {fmt}"
    return check


def _conversion(source: FloatFormat, target: FloatFormat) -> Check:
    def check(cases: int) -> dict[str, Any]:
        (a,) = operands([source], np.random.default_rng(SEED), cases)
        with np.errstate(all="ignore"):
            reference = _floats(source, a).astype(NATIVE[target.name])
        return _row(check.__name__, convert(source, target, a), _patterns(target, reference), a)

    check.__name__ = f"convert {source} to {target}"
    return check


def _integer(bits: int, target: FloatFormat) -> Check:
    def check(cases: int) -> dict[str, Any]:
        limit = 1 << (bits - 1)
        values = np.random.default_rng(SEED).integers(-limit, limit, cases)
        with np.errstate(all="ignore"):
            reference = values.astype(NATIVE[target.name])
        return _row(
            check.__name__, int_to_float(target, values), _patterns(target, reference), values
        )

    check.__name__ = f"int{bits} to {target}"
    return check


GOLDEN_CHECKS = [
    _operation("multiply", FP16, multiply, np.multiply),
    _operation("multiply", FP32, multiply, np.multiply),
    _operation("add", FP16, add, np.add),
    _operation("add", FP32, add, np.add),
    _conversion(FP32, FP16),
    _conversion(FP16, FP32),
    _integer(18, FP16),
    _integer(32, FP32),
]


def _check_rtl(params: PipelinedParams) -> dict[str, Any]:
    """Run a combinational block: payload in, payload out, no clock."""
    from amaranth.sim import Simulator, SimulatorContext

    from tilewright.hw.catalog import build

    bench = stream_bench_of(params)
    stimulus = bench.stimulus(params, np.random.default_rng(SEED), RTL_CASES)
    expected = bench.expected(params, stimulus)
    (port_in,), (port_out,) = params.inputs, params.outputs
    sent, wanted = pack(port_in, stimulus["i"]), pack(port_out, expected["o"])
    block, got = build(params), []

    async def drive(context: SimulatorContext) -> None:
        for word in sent:
            context.set(block.i.payload.as_value(), word)
            got.append(context.get(block.o.payload.as_value()))

    simulator = Simulator(block)
    simulator.add_testbench(drive)
    simulator.run()
    words = [np.array(column, dtype=object) for column in (got, wanted, sent)]
    return _row(params.slug, *words)
