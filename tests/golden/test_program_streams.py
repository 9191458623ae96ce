"""Loops, index registers and programs in external memory, on golden's side."""

import re
from random import Random

import numpy as np
import pytest

from tilewright.golden.machine.assembly import AssemblyError, instruction_lines
from tilewright.golden.machine.loops import Loops, walk
from tilewright.golden.machine.stream import StreamClock, program_lines
from tilewright.golden.params.machine import CODE_LINES, Error
from tilewright.golden.params.resolve import resolve
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.streams import random_program

SPECS = {"anda": "activations", "harmonia": "fp16"}  # a memory that loads and stores
of_each = pytest.mark.parametrize("name", SPECS)


def system_of(name):
    params = resolve(f"{name}:small")
    return params, accelerator_of(params)


def unrolled(lines):
    """Text without loops: an interpreter of its own, by recursion over the text."""

    def number(text, index):
        base, plus, register = text.partition("+i")
        return str(int(base, 0) + (index[int(register) - 1] if plus else 0))

    def block(at, index):
        out = []
        while at < len(lines):
            code = lines[at]
            if code == "end":
                return out, at
            if code.startswith("loop"):
                given = dict(part.split("=") for part in code[5:].split(", "))
                strides = [int(given.get(f"i{k}", 0)) for k in (1, 2, 3)]
                for k in range(int(given["count"])):
                    moved = [i + k * s for i, s in zip(index, strides, strict=True)]
                    body, end = block(at + 1, moved)
                    out += body
                at = end + 1
                continue
            moved = re.sub(r"\d+\+i\d", lambda m: number(m[0], index), code)
            out.append(moved)
            at += 1
        return out, at

    return block(0, [0, 0, 0])[0]


@of_each
@pytest.mark.parametrize("seed", range(4))
def test_loops_are_their_iterations(name, seed):
    params, system = system_of(name)
    text = random_program(params, SPECS[name], Random(seed), 60)
    rolled, flat = system.assemble(text), system.assemble("\n".join(unrolled(text.split("\n"))))
    found = [x for _, x, _ in walk(rolled) if x.opcode.name != "LOOP"]
    assert found == flat
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, 64 * params.line_bytes, np.uint8)
    code, other = program_lines(params, rolled), program_lines(params, flat)
    ends = []
    for lines in (code, other):
        content = np.concatenate([memory, lines])
        outcome = system.machine(params, content).run_stream(64)
        assert outcome.error is Error.NONE
        ends.append(content[: len(memory)])
    assert np.array_equal(*ends)
    assert system.assemble(system.disassemble(rolled)) == rolled


@of_each
def test_text_of_loops(name):
    _, system = system_of(name)
    text = "loop count=3, i1=-2, i3=0x10\nadd s1, s0, #1\nloop count=2\nlargest s0, r8+i1, elements=4\nend\nend\nhalt"  # noqa: E501
    program = system.assemble(text)
    outer, _, inner = program[:3]
    assert (outer["count"], outer["body"], inner["body"]) == (3, 3, 1)
    assert (outer["stride1"], outer["stride3"]) == ((1 << 28) - 2, 16)
    assert program[3]["a"] == 8 and program[3]["a_index"] == 1
    assert "i1=-2" in system.disassemble(program) and "r8+i1" in system.disassemble(program)
    assert instruction_lines(text) == [1, 2, 3, 4, 7]


@of_each
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("end", "line 1: end without a loop"),
        ("loop count=2\nend", "line 2: a loop without instructions"),
        ("halt\nloop count=2\nhalt", "line 2: loop lacks its end"),
        ("loop i1=2, body=1\nhalt", "line 1: loop lacks count"),
        ("loop count=1, body=1, i1=200000000", "line 1: i1 must be -134217728..134217727, not .*"),
        ("loop count=1, body=1, i4=2", "line 1: loop has no operand 'i4'"),
        ("largest s0, r0+i4, elements=4", "line 1: an operand is rROW, .*"),
        ("wait row=0+i1", "line 1: wait has no operand 'row'"),
    ],
)
def test_refused_text(name, text, message):
    _, system = system_of(name)
    with pytest.raises(AssemblyError, match=f"^{message}$"):
        system.assemble(text)


@of_each
@pytest.mark.parametrize(
    ("text", "error", "number", "reason"),
    [
        ("loop count=2\n" * 4 + "wait\n" + "end\n" * 4, Error.LOOP, 3, "is within 3 others"),
        ("loop count=2, body=2\nloop count=1, body=2\nwait\nwait\nhalt", Error.LOOP, 1,
         "ends after the loop around it"),
        ("loop count=2, body=5\nwait\nhalt", Error.NONE, 2, "ends after the program"),
        ("loop count=0, body=1\nhalt", Error.SIZE, 0, None),
    ],
)  # fmt: skip
def test_loops_that_cannot_begin(name, text, error, number, reason):
    params, system = system_of(name)
    program = system.assemble(text)
    outcome = system.machine(params, np.zeros(0, np.uint8)).run(program)
    assert (outcome.error, outcome.instruction) == (error, number)
    hazard = system.first_hazard(params, program)
    assert (hazard is None) == (reason is None)
    if hazard:
        assert reason in hazard.reason


@of_each
def test_a_hazard_of_one_iteration_is_found(name):
    """The result moves into the operand's rows in the third."""
    params, system = system_of(name)
    text = "loop count={}, i1=16\nadd r0+i1, r64, #1, elements=16\nend\nhalt"
    assert system.first_hazard(params, system.assemble(text.format(4))) is None
    hazard = system.first_hazard(params, system.assemble(text.format(5).replace("r64", "r66")))
    assert hazard is not None and hazard.instruction == 1


def test_index_registers_forget_what_a_loop_added():
    _, system = system_of("anda")
    outer, inner, *_ = system.assemble(
        "loop count=2, i1=3\nloop count=2, i1=10, i2=1\nwait\nend\nend"
    )
    loops = Loops()
    loops.enter(outer, 0)
    loops.enter(inner, 1)
    assert loops.go_on(3).number == 2 and loops.indices == (10, 1, 0)
    assert loops.go_on(3) == (1, 2, 1) and loops.indices == (3, 0, 0)
    loops.enter(inner, 1)
    assert loops.go_on(3).number == 2 and loops.indices == (13, 1, 0)
    assert loops.go_on(3) == (3, 2, 3) and loops.indices == (0, 0, 0)


def test_instructions_come_before_they_are_needed():
    """After the first line a stream is as fast as the instruction memory, up to long latencies."""
    params, _ = system_of("anda")
    for latency in (1, 30, 100):
        clock, now, waits = StreamClock(params, latency), 0, 0
        for number in range(1000):
            clock.moved(now, number)
            present = clock.present(number)
            waits += max(0, present - now) if number >= params.line_instructions else 0
            now = max(now, present) + 4  # the shortest instruction
        most = CODE_LINES * params.line_instructions * 4  # cycles of what is on its way
        assert waits == 0 if latency + 10 < most else waits > 0


@of_each
def test_a_machine_needs_room_for_two_lines(name):
    message = "^instructions must be at least 8, two lines of them, not 7$"
    with pytest.raises(ValueError, match=message):
        resolve(f"{name}:small,instructions=7")
    assert resolve(f"{name}:small,instructions=40").longest_loop == 32 - 4
