"""Libraries as they are called, and the recorded table of what they do.

Each library is a function that imports it and yields its functions by format. A row that deviates
for a reason that no rule names is explained in ``EXPLAINED``.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.base.records import write_record
from tilewright.base.table import Table
from tilewright.conform.check import Report, check
from tilewright.conform.subject import with_tensors
from tilewright.conform.vectors import digest
from tilewright.golden.lowbit_table import LOWBIT, lowbit
from tilewright.golden.params.names import unknown

RECORDS = Path(__file__).with_name("records.json")
PLAIN = {"e4m3": "e4m3fn", "e5m2": "e5m2", "e4m3fnuz": "e4m3fnuz", "e5m2fnuz": "e5m2fnuz"}
GGUF = ("q4_0", "q8_0", "iq4_nl", "q4_k", "q6_k", "tq1_0", "tq2_0", "gguf_mxfp4")


class Entry(NamedTuple):
    format: str
    function: str
    encode: Callable | None = None
    decode: Callable | None = None


def of_tilewright() -> Iterator[Entry]:
    from tilewright.golden.formats import FORMATS

    for name in ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp4", "int8", "int4"):
        form = FORMATS[name]
        yield Entry(name, "golden.formats", form.encode, form.decode)


def of_ml_dtypes() -> Iterator[Entry]:
    import ml_dtypes

    small = {"e3m2": "6_e3m2fn", "e2m3": "6_e2m3fn", "e2m1": "4_e2m1fn"}
    for name, suffix in ({n: f"8_{s}" for n, s in PLAIN.items()} | small).items():
        kind = getattr(ml_dtypes, f"float{suffix}")

        def decode(codes: NDArray, kind: Any = kind) -> NDArray:
            return codes.view(kind).astype(np.float32)

        yield Entry(name, f"astype(float{suffix})", lambda x, kind=kind: x.astype(kind), decode)


def of_gguf() -> Iterator[Entry]:
    import gguf

    for name in GGUF:
        kind = gguf.GGMLQuantizationType[name.removeprefix("gguf_").upper()]
        fmt = lowbit(name)
        encode = partial(gguf.quantize, qtype=kind) if fmt.rules else None
        yield Entry(name, "quants", encode, partial(gguf.dequantize, qtype=kind))


def of_torch() -> Iterator[Entry]:
    import torch

    for name, suffix in PLAIN.items():
        kind = getattr(torch, f"float8_{suffix}")
        yield Entry(
            name,
            f"to(float8_{suffix})",
            _tensors(lambda x, kind=kind: x.to(kind)),
            _tensors(lambda c, kind=kind: c.view(kind).float()),
        )


def of_torchao() -> Iterator[Entry]:
    import torch
    from torchao.prototype.mx_formats import nvfp4_tensor as nv
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import pack_uint4, to_dtype, to_mx, unpack_uint4

    kinds = {
        **{"mxfp8_e4m3": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2},
        **{"mxfp6_e3m2": "fp6_e3m2", "mxfp6_e2m3": "fp6_e2m3", "mxfp4": torch.float4_e2m1fn_x2},
    }

    def encode(x: Any, kind: Any, mode: Any) -> Any:
        scales, codes = to_mx(x, kind, 32, mode)
        return (unpack_uint4(codes) if kind == kinds["mxfp4"] else codes), scales

    def decode(codes: Any, scales: Any, kind: Any) -> Any:
        codes = pack_uint4(codes) if kind == kinds["mxfp4"] else codes
        codes = codes.view(kind) if "8" in str(kind) else codes
        return to_dtype(codes, scales, kind, 32, torch.float32)

    for name, kind in kinds.items():
        for mode in ScaleCalculationMode:
            first = mode is ScaleCalculationMode.FLOOR
            yield Entry(
                name,
                f"to_mx, {mode.name}",
                _tensors(partial(encode, kind=kind, mode=mode)),
                _tensors(partial(decode, kind=kind)) if first else None,
            )

    def nvfp4(x: Any) -> Any:
        tensor = nv.per_tensor_amax_to_scale(x.abs().max())
        scales, codes = nv.nvfp4_quantize(x, 16, tensor)
        return unpack_uint4(codes), scales, tensor

    yield Entry("nvfp4", "nvfp4_quantize", _tensors(nvfp4))


def of_compressed_tensors() -> Iterator[Entry]:
    import torch
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import quantize
    from compressed_tensors.quantization.utils import calculate_qparams

    def encode(x: Any, args: Any) -> Any:
        blocks = x.reshape(len(x), -1, args.group_size)
        scales, zeros = calculate_qparams(blocks.amin(-1), blocks.amax(-1), args)
        return quantize(x, scales, zeros, args), scales.float()

    group = {"strategy": "group", "symmetric": True}
    kinds = {
        "mxfp4": {"num_bits": 4, "type": "float", "group_size": 32, "scale_dtype": torch.uint8},
        "mxfp8_e4m3": {
            "num_bits": 8,
            "type": "float",
            "group_size": 32,
            "scale_dtype": torch.uint8,
        },
        "int8": {"num_bits": 8, "type": "int", "group_size": 128, "scale_dtype": torch.float16},
        "int4": {"num_bits": 4, "type": "int", "group_size": 128, "scale_dtype": torch.float16},
    }
    for name, kind in kinds.items():
        args = QuantizationArgs(**group, **kind)
        yield Entry(name, "quantize", _tensors(partial(encode, args=args)))


def of_modelopt() -> Iterator[Entry]:
    from modelopt.torch.quantization.qtensor import MXFP4QTensor, NVFP4QTensor
    from modelopt.torch.quantization.qtensor.mxfp8_tensor import MXFP8QTensor

    def encode(x: Any, kind: Any, *sizes: int) -> Any:
        found, *scales = kind.quantize(x, *sizes)
        codes = found._quantized_data
        codes = codes if kind is MXFP8QTensor else _nibbles(codes)
        return (codes, scales[0].reshape(len(x), -1), *scales[1:])

    for name, kind, *size in (
        ("mxfp8_e4m3", MXFP8QTensor),
        ("mxfp4", MXFP4QTensor, 32),
        ("nvfp4", NVFP4QTensor, 16),
    ):
        yield Entry(
            name, f"{kind.__name__}.quantize", _tensors(lambda x, k=kind, s=size: encode(x, k, *s))
        )


def of_brevitas() -> Iterator[Entry]:
    import torch
    from brevitas import nn
    from brevitas.quant import mx_quant_ocp as ocp

    for name, kind in (("mxfp8_e4m3", "MXFloat8e4m3Weight"), ("mxint8", "MXInt8Weight")):

        def through(x: Any, kind: str = kind) -> Any:
            quantiser = getattr(ocp, kind)
            linear = nn.QuantLinear(x.shape[1], x.shape[0], False, weight_quant=quantiser)
            linear.weight.data = x
            with torch.no_grad():
                return linear.quant_weight().value.reshape(x.shape)

        yield Entry(name, kind, _tensors(through))


def of_bitsandbytes() -> Iterator[Entry]:
    from bitsandbytes.functional import QuantState, dequantize_4bit, quantize_4bit

    def encode(x: Any) -> Any:
        packed, state = quantize_4bit(x, blocksize=64, quant_type="nf4")
        codes = _nibbles(packed.reshape(len(x), -1), high=True)
        return codes, state.absmax.reshape(len(x), -1)

    def decode(codes: NDArray, scales: NDArray) -> Any:
        import torch

        packed = torch.from_numpy(codes[:, ::2] << 4 | codes[:, 1::2])
        absmax = torch.from_numpy(scales.view(np.float32).ravel())
        state = QuantState(absmax, codes.shape, None, 64, "nf4", torch.float32)
        return dequantize_4bit(packed.reshape(-1, 1), state, quant_type="nf4").reshape(codes.shape)

    yield Entry("nf4", "quantize_4bit", _tensors(encode), decode)


def of_auto_round() -> Iterator[Entry]:
    from auto_round.data_type.mxfp import quant_mx
    from auto_round.data_type.nvfp import nv_fp4

    kinds = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4", "mxint8")
    for name in kinds:
        kind = {"mxfp4": "mx_fp4e2m1"}.get(name, name.replace("mx", "mx_").replace("_e", "e"))
        take = partial(quant_mx, bits=lowbit(name).bits, group_size=32, data_type=kind)
        yield Entry(name, "quant_mx", _tensors(lambda x, take=take: take(x)[0]))
    yield Entry("nvfp4", "nv_fp4", _tensors(lambda x: nv_fp4(x)[0]))


def of_quark() -> Iterator[Entry]:
    from quark.torch.kernel.hw_emulation.hw_emulation_interface import fake_quantize_mx

    kinds = {
        **{"mxfp8_e4m3": "fp8_e4m3", "mxfp8_e5m2": "fp8_e5m2", "mxfp6_e3m2": "fp6_e3m2"},
        **{"mxfp6_e2m3": "fp6_e2m3", "mxfp4": "fp4", "mxint8": "int8"},
    }
    for name, kind in kinds.items():
        for mode in ("even", "floor"):
            take = partial(
                fake_quantize_mx,
                **{"axis": -1, "block_size": 32, "scale_calculation_mode": mode},
                mx_element_dtype=kind,
            )
            yield Entry(name, f"fake_quantize_mx, {mode}", _tensors(take))


def of_microxcaling() -> Iterator[Entry]:
    from mx.mx_ops import _quantize_mx

    kinds = {
        **{"mxfp8_e4m3": "fp8_e4m3", "mxfp8_e5m2": "fp8_e5m2", "mxfp6_e3m2": "fp6_e3m2"},
        **{"mxfp6_e2m3": "fp6_e2m3", "mxfp4": "fp4_e2m1", "mxint8": "int8"},
        **{"mxint4": "int4", "mxint2": "int2"},
    }
    for name, kind in kinds.items():
        sizes = {"scale_bits": 8, "axes": [-1], "block_size": 32}
        take = partial(_quantize_mx, elem_format=kind, round="even", **sizes)
        yield Entry(name, "quantize_mx, even", _tensors(take))


LIBRARIES: dict[str, Callable[[], Iterator[Entry]]] = {
    "tilewright": of_tilewright,
    "ml_dtypes": of_ml_dtypes,
    "gguf": of_gguf,
    "torch": of_torch,
    "torchao": of_torchao,
    "compressed-tensors": of_compressed_tensors,
    "nvidia-modelopt": of_modelopt,
    "amd-quark": of_quark,
    "brevitas": of_brevitas,
    "bitsandbytes": of_bitsandbytes,
    "auto-round": of_auto_round,
    "microxcaling": of_microxcaling,
}
EXPLAINED: dict[tuple[str, ...], str] = {
    ("gguf", "gguf_mxfp4"): "exponents below -127 wrap to bytes up to 255",
    ("compressed-tensors",): "from 1.75 * 2^127 on the scale is infinite, and values are NaN",
    ("nvidia-modelopt", "mxfp4"): "the least float32 number is 0 as a float32 quotient",
    ("microxcaling",): "logarithms of elements are float32 numbers, too",
    ("bitsandbytes",): "wrong codes where the largest magnitude of a block is subnormal",
}
NO_RELEASE = {"microxcaling": "7bc4195"}  # its only branch, not on PyPI


def reports(
    library: str, format: str | None = None, rules: dict[str, str] | None = None
) -> Iterator[Report]:
    """Check the functions of a library, of one format or of all."""
    try:
        entries = list(LIBRARIES[library]())
    except ImportError as error:
        raise CommandError(f"{library} cannot be imported ({error}); pip install it") from None
    if format:
        known = {entry.format for entry in entries}
        if format not in known:
            raise CommandError(unknown(f"format of {library}", format, sorted(known)))
        entries = [entry for entry in entries if entry.format == format]
    for entry in entries:
        yield check(entry.format, entry.encode, entry.decode, entry.function, rules)


def update_records(libraries: Iterable[str] = ()) -> Iterator[str]:
    """Check these libraries, or all that can be imported; a line for each. Others' rows stay."""
    write_record(RECORDS.with_name("vectors.json"), {name: digest(name) for name in LOWBIT})
    records = load_records()
    for library in libraries or LIBRARIES:
        try:
            found = list(reports(library))
        except CommandError as error:
            yield str(error)
            continue
        rows = [
            {
                **{"format": r.format, "function": r.subject, "verdict": r.verdict},
                "compared": sum(check.compared for check in r.checks),
                "wrong": r.wrong,
                **({"rules": r.rules, "unexplained": r.unexplained} if r.wrong else {}),
                **({"example": r.example} if r.unexplained else {}),
            }
            for r in found
        ]
        records[library] = {"version": _version(library), "functions": rows}
        write_record(RECORDS, records)
        yield f"{library} {_version(library)}: {len(found)} functions"


def load_records() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
    return found


def explanation(library: str, row: dict[str, Any]) -> str:
    """Why codes deviate that no rules explain; empty where nobody has found out."""
    names = (library, row["format"], row["function"])
    reasons = (EXPLAINED.get(names[:length], "") for length in (3, 2, 1))
    return next((reason for reason in reasons if reason), "") if row.get("unexplained") else ""


def table() -> Table:
    """The recorded results, a row for each function of a library."""
    rows = []
    for library, entry in load_records().items():
        for row in entry["functions"]:
            rules = ", ".join(f"{name}={rule}" for name, rule in row.get("rules", {}).items())
            left = row.get("unexplained", 0)
            verdict = rules or "exact" if not left else f"{left} of {row['compared']} deviate"
            why = "; ".join(part for part in (left and rules, explanation(library, row)) if part)
            rows.append(
                [f"{library} {entry['version']}", row["format"], row["function"], verdict, why]
            )
    return Table(["library", "format", "function", "verdict", "besides"], rows)


def _version(library: str) -> str:
    if library == "tilewright":
        from tilewright import __version__

        return __version__
    try:
        return version(library)
    except PackageNotFoundError:
        return NO_RELEASE.get(library, "?")


def _tensors(function: Callable) -> Callable:
    return partial(with_tensors, function)


def _nibbles(packed: Any, high: bool = False) -> NDArray:
    """Two codes of each byte, that of the low bits first."""
    data = packed.numpy()
    pair = (data >> 4, data & 15) if high else (data & 15, data >> 4)
    return np.stack(pair, -1).reshape(len(data), -1)
