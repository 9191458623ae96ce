"""Text to instructions and back.

The general form is that of :mod:`tilewright.golden.machine.assembly`:

    configure lanes=0xff, tokens=160, dataflow=row_major   ; 0xffff, 0, column_major unless said
    load fp16, row=0, rows=32, line=0x40
    load fp16, row=32, rows=32, line=0x60, spread=3                 ; bank 2's values to all banks
    learn source=0, elements=128, first=1, last=1
    convert keys, source=0, elements=128, destination=0, low_halves=512, metadata=0
    convert values, source=0, elements=128, destination=64, low_halves=600, metadata=64, tokens=8
    convert activations, source=32, elements=128, destination=0
    configure tokens=160, causal_limit=1                            ; causal
    gemm keys, source=0, operands=0, low_halves=512, metadata=0, destination=128, groups=4, \
tiles=10, maxima=1, register=0
    powers r128, r128, s0, elements=160, total=s1, causal_limit=1   ; causal
    clear low_halves=512, rows=4, part=1
    tiled_gemm source=0, weights=0x1000, destination=0x20, groups=4, tiles=8, token_tiles=2, keep=4
    store fp16, row=0, rows=32, line=0x80
    halt
"""

from tilewright.golden.harmonia_machine.isa import Instruction, Settings
from tilewright.golden.machine.assembly import Assembler
from tilewright.golden.machine.assembly import AssemblyError as AssemblyError
from tilewright.golden.params.harmonia_machine import Conversion, Dataflow, Memory, Opcode, Operand
from tilewright.golden.params.vector import Operation

_START = Settings()
_LANGUAGE = Assembler(
    Instruction,
    leading={
        Opcode.LOAD: ("memory", Memory),
        Opcode.STORE: ("memory", Memory),
        Opcode.GEMM: ("operand", Operand),
        Opcode.CONVERT: ("conversion", Conversion),
    },
    defaults={
        Opcode.LOAD: {"spread": 0},
        Opcode.CONFIGURE: {
            "lanes": _START.lanes,
            "tokens": _START.tokens,
            "dataflow": int(_START.dataflow),
            "causal_limit": _START.causal_limit,
        },
        Opcode.GEMM: {"low_halves": 0, "token_tiles": 1, "maxima": 0, "register": 0},
        Opcode.CONVERT: dict.fromkeys(("low_halves", "metadata", "part", "tokens", "short"), 0),
        Opcode.LEARN: {"first": 0, "last": 0},
        Opcode.CLEAR: {"part": 0},
    },
    choices={"dataflow": Dataflow},
    vector_settings=("causal_limit",),
    vector_operations=tuple(Operation),
)
assemble, disassemble = _LANGUAGE.assemble, _LANGUAGE.disassemble
