"""Instructions of the Anda accelerator: their text, the rows they touch, and their checks.

The encoding is declared in :mod:`tilewright.golden.params.anda_machine`, the general form of the
text is that of :mod:`tilewright.golden.machine.assembly`:

    configure source=5, result=0
    load activations, row=0, rows=12, line=0x40        ; stride=1 unless said
    load exponents, row=0, rows=2, line=0x80, stride=6
    wait
    gemm source=0, weights=0, scales=0, destination=64, inputs=32, outputs=20
    sum s0, r64, elements=20, scale=0.05               ; a reduction into scalar register 0
    add s0, s0, #1e-3                                  ; scalars alone
    multiply r96, r64, s0, elements=20                 ; a tensor times its row's scalar
    dots r128, r256, r64, elements=16, scale=0.25, results=8, pitch=16   ; step=1 unless said
    weigh r144, r256, r128, elements=8, results=16, step=16              ; pitch=1 unless said
    compress source=96, destination=0, elements=20
    shared_gemm source=0, weights=0, scales=0, destination=64, inputs=32, outputs=40 ; row groups
    store activations, row=96, rows=32, line=0x100
    halt

:func:`check` gives the error with which the hardware stops at an instruction.
:func:`first_hazard` finds what the hardware does not check: an instruction reads and writes its
buffers row by row, so the result of one that overwrites its own operands would depend on timing.
Between instructions there are no hazards: those that run at the same time touch different regions.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from tilewright.golden.machine.assembly import Assembler
from tilewright.golden.machine.extent import (
    Extent,
    Hazard,
    Ranges,
    bad_address,
    bad_size,
    find_hazard,
)
from tilewright.golden.machine.instruction import (
    BaseInstruction,
    bad_vector_operand,
    tensor_operands,
    works_on_scalars,
)
from tilewright.golden.params.anda import MAX_MANTISSA_BITS
from tilewright.golden.params.anda_machine import (
    FP16_ROWS,
    INSTRUCTION_FIELDS,
    AndaParams,
    Memory,
    Opcode,
    group_rows,
)
from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import Operation


class Instruction(BaseInstruction):
    """An opcode of the Anda accelerator and its fields."""

    FIELDS: ClassVar = INSTRUCTION_FIELDS
    DEFAULTS: ClassVar = {
        **{Opcode.LOAD: {"stride": 1}, Opcode.STORE: {"stride": 1}},
        Opcode.SHARED_GEMM: {"span": 0, "continues": 0, "keeps": 0},
    }


decode = Instruction.decode
_LANGUAGE = Assembler(
    Instruction,
    leading={opcode: ("memory", Memory) for opcode in (Opcode.LOAD, Opcode.STORE)},
    vector_operations=AndaParams().vector.operations,
    attention_settings={"results": 1, "step": 1, "pitch": 1, "across": 0},
    spelling={"source": "source_mantissa", "result": "result_mantissa"},
)
assemble, disassemble = _LANGUAGE.assemble, _LANGUAGE.disassemble


class Formats(NamedTuple):
    """Mantissa bits that ``configure`` sets (0: not Anda), and the sums that the array keeps."""

    source: int = 0
    result: int = 0
    kept: tuple[int, int] = (0, 0)  # outputs, and the span, of a shared gemm that kept its sums

    def after(self, x: Instruction) -> "Formats":
        """Those after an instruction."""
        if x.opcode is Opcode.CONFIGURE:
            return self._replace(source=x["source_mantissa"], result=x["result_mantissa"])
        if x.opcode in GEMMS:
            keeps = x.opcode is Opcode.SHARED_GEMM and x["keeps"]
            return self._replace(kept=(x["outputs"], x["span"]) if keeps else (0, 0))
        return self


GEMMS = (Opcode.GEMM, Opcode.SHARED_GEMM)


def groups_of(params: AndaParams, elements: int) -> int:
    return -(-elements // params.group)


def extents(params: AndaParams, formats: Formats, x: Instruction) -> list[Extent]:
    """Every range of rows that an instruction without earlier errors touches."""
    match x.opcode:
        case Opcode.LOAD | Opcode.STORE:
            return [Extent(Memory(x["memory"]), x["row"], x["rows"], x["stride"])]
        case Opcode.GEMM | Opcode.SHARED_GEMM:
            groups = groups_of(params, x["inputs"])
            tiles = params.whole_tiles(-(-x["outputs"] // params.columns))
            results = groups_of(params, x["outputs"]) * group_rows(formats.result)
            weights = tiles * groups * params.mxu.weight_beats
            touched = [
                Extent(Memory.ACTIVATIONS, x["source"], groups * group_rows(formats.source)),
                Extent(Memory.WEIGHTS, x["weights"], weights),
                Extent(Memory.SCALES, x["scales"], tiles * groups),
                Extent(Memory.ACTIVATIONS, x["destination"], results),
            ]
            return touched[:-1] if keeps_sums(x) else touched
        case Opcode.COMPRESS:
            groups = groups_of(params, x["elements"])
            results = groups * group_rows(formats.result)
            return [
                Extent(Memory.ACTIVATIONS, x["source"], groups * FP16_ROWS),
                Extent(Memory.ACTIVATIONS, x["destination"], results),
            ]
        case Opcode.VECTOR if Operation(x["operation"]).attends:
            return _attention_extents(params, x)
        case Opcode.VECTOR:
            rows = groups_of(params, x["elements"]) * FP16_ROWS
            return [Extent(Memory.ACTIVATIONS, x[name], rows) for name in tensor_operands(x)]
    return []


def keeps_sums(x: Instruction) -> bool:
    """Whether a gemm writes nothing."""
    return x.opcode is Opcode.SHARED_GEMM and bool(x["keeps"])


def pass_tiles(params: AndaParams, x: Instruction) -> int:
    """Tiles of columns that a gemm works on at a time."""
    return params.row_groups >> x["span"] if x.opcode is Opcode.SHARED_GEMM else 1


def beats_of(params: AndaParams, elements: int) -> int:
    """Beats of the vector unit that hold so many fp16 values of a token."""
    return -(-elements // params.vector.row_lanes)


def goes_across(params: AndaParams, x: Instruction) -> bool:
    """Whether all banks take a from one bank after another in dots or weigh."""
    return params.row_groups > 1 and bool(x["across"])


def attention_beats(params: AndaParams, x: Instruction) -> int:
    """Beats of one sum of dots or weigh."""
    weighs = x["operation"] == Operation.WEIGH
    return x["elements"] if weighs else beats_of(params, x["elements"])


def _attention_extents(params: AndaParams, x: Instruction) -> list[Extent]:
    """Rows of a, b and the destination of dots or weigh."""
    beats, results = attention_beats(params, x), x["results"]
    pitched, along = (results - 1) * x["pitch"], (beats - 1) * x["step"]
    if x["operation"] == Operation.WEIGH:
        rest = 0 if goes_across(params, x) else along
        counts = (pitched + rest + 1, beats_of(params, x["elements"]), results)
    else:
        rest = 0 if goes_across(params, x) else pitched
        counts = (rest + beats, along + 1, beats_of(params, results))
    return [
        Extent(Memory.ACTIVATIONS, x[name], count * params.beat_words)
        for name, count in zip(("a", "b", "destination"), counts, strict=True)
    ]


def check(params: AndaParams, formats: Formats, x: Instruction | None) -> Error:
    """Why the machine would stop at this instruction; ``Error.NONE`` if it would not."""
    if x is None or x.opcode not in params.opcodes:
        return Error.OPCODE
    if _bad_operand(params, formats, x):
        return Error.OPERAND
    if bad_size(params, x) or _empty_attention(x) or _too_many_sums(params, x):
        return Error.SIZE
    if _bad_mantissa(formats, x):
        return Error.MANTISSA
    within = _within_block(params, x) or _within_beat(params, x)
    if bad_address(params, x, extents(params, formats, x)) or within:
        return Error.ADDRESS
    return Error.NONE


def _bad_operand(params: AndaParams, formats: Formats, x: Instruction) -> bool:
    if x.opcode is Opcode.SHARED_GEMM:
        others = x["continues"] and formats.kept != (x["outputs"], x["span"])
        return x["span"] not in params.spans or bool(others)
    if x.opcode in (Opcode.LOAD, Opcode.STORE):
        known = x["memory"] in Memory.__members__.values()
        return not known or (x.opcode is Opcode.STORE and not Memory(x["memory"]).stores)
    return x.opcode is Opcode.VECTOR and bad_vector_operand(params.vector, x)


def _empty_attention(x: Instruction) -> bool:
    """Dots or weigh without results or steps."""
    if x.opcode is not Opcode.VECTOR or not Operation(x["operation"]).attends:
        return False
    return 0 in (x["results"], x["step"], x["pitch"])


def _too_many_sums(params: AndaParams, x: Instruction) -> bool:
    """A gemm that keeps its sums, or goes on from them, has one for each unit of the array."""
    if x.opcode is not Opcode.SHARED_GEMM or not (x["continues"] or x["keeps"]):
        return False
    return x["outputs"] > pass_tiles(params, x) * params.columns


def _within_block(params: AndaParams, x: Instruction) -> bool:
    """Weights or scales of a gemm that begin within a block."""
    if params.row_groups == 1 or x.opcode not in GEMMS:
        return False
    tiles = params.block_tiles
    return bool(x["weights"] % (tiles * params.mxu.weight_beats) or x["scales"] % tiles)


def _within_beat(params: AndaParams, x: Instruction) -> bool:
    """A tensor of the vector unit that begins within a beat."""
    names = []
    if x.opcode is Opcode.VECTOR:
        names = tensor_operands(x)
    elif x.opcode is Opcode.COMPRESS:
        names = ["source"]
    return any(x[name] % params.beat_words for name in names)


def _bad_mantissa(formats: Formats, x: Instruction) -> bool:
    match x.opcode:
        case Opcode.CONFIGURE:
            return max(x["source_mantissa"], x["result_mantissa"]) > MAX_MANTISSA_BITS
        case Opcode.GEMM | Opcode.SHARED_GEMM:
            return formats.source == 0
        case Opcode.COMPRESS:
            return formats.result == 0
    return False


def first_hazard(params: AndaParams, program: Sequence[Instruction]) -> Hazard | None:
    """The first instruction whose result depends on timing, and why; None if there is none."""
    return find_hazard(
        program,
        Formats(),
        lambda formats, x: check(params, formats, x),
        lambda formats, x: ranges(params, formats, x),
    )


def ranges(params: AndaParams, formats: Formats, x: Instruction) -> Ranges:
    touched = extents(params, formats, x)
    match x.opcode:
        case Opcode.LOAD:
            return Ranges([], touched)
        case Opcode.STORE:
            return Ranges(touched, [])
        case Opcode.SHARED_GEMM if x["keeps"]:
            return Ranges(touched, [])
        case Opcode.VECTOR if Operation(x["operation"]).reduces or works_on_scalars(x):
            return Ranges(touched, [])
    return Ranges(touched[:-1], touched[-1:])
