"""Text to instructions and back.

The general form is that of :mod:`tilewright.golden.machine.assembly`:

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
    store activations, row=96, rows=32, line=0x100
    halt
"""

from tilewright.golden.anda_machine.isa import Instruction
from tilewright.golden.machine.assembly import Assembler
from tilewright.golden.machine.assembly import AssemblyError as AssemblyError
from tilewright.golden.params.anda_machine import AndaParams, Memory, Opcode

_LANGUAGE = Assembler(
    Instruction,
    leading={opcode: ("memory", Memory) for opcode in (Opcode.LOAD, Opcode.STORE)},
    defaults={opcode: {"stride": 1} for opcode in (Opcode.LOAD, Opcode.STORE)},
    vector_operations=AndaParams().vector.operations,
    attention_settings={"results": 1, "step": 1, "pitch": 1},
    spelling={"source": "source_mantissa", "result": "result_mantissa"},
)
assemble, disassemble = _LANGUAGE.assemble, _LANGUAGE.disassemble
