"""Whether registers of two circuits differ only while nobody reads them: a proof by induction.

Both circuits have the same inputs, outputs and registers. Some registers may differ, the others
are always equal; and each that may has guards among the latter: these have the values of a reset
whenever it differs. That holds at power-up. If it holds in a cycle, whatever the inputs and the
rest of the state, then all outputs must be equal, and it must hold in the next cycle: ABC proves
that of all cases at once. Which registers differ, and which are guards, is guessed by random
simulation, and corrected by what ABC shows; a wrong guess makes a proof fail, no more than that.
"""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.studies.mutations.abc import ask

__all__ = ["Unread", "look_for_unread"]

WORDS = 8  # of 64 patterns each, in a simulation of either case
ROUNDS = 8  # simulations in a row that must correct nothing before ABC is asked
_NONE, _ONES = np.uint64(0), np.uint64((1 << 64) - 1)

Bits = NDArray[np.uint64]


@dataclass(frozen=True)
class Unread:
    """What was found: a proof, or outputs that differ before there is one, or neither."""

    is_proved: bool = False
    seen: frozenset[str] = frozenset()  # names of outputs


@dataclass(frozen=True)
class Circuit:
    """AND gates and registers of an AIGER file: literals, which are twice a number, plus 1 if not.

    Number 0 is the constant; then come inputs, registers and gates.
    """

    inputs: list[str]
    registers: list[str]
    outputs: list[str]
    following: list[int]  # by register, what it becomes
    starts: list[int]  # by register, at power-up: 0 or 1, or 2 where it is anything
    shown: list[int]  # by output
    gates: list[tuple[int, int]]
    given: list[int]  # by own input and register, its place in the order of whom it is compared to

    @classmethod
    def read(cls, path: Path) -> "Circuit":
        """Read a binary file with a table of names."""
        header, _, rest = path.read_bytes().partition(b"\n")
        _, inputs, registers, outputs, gates = map(int, header.split()[1:6])
        lines = []
        for _ in range(registers + outputs):
            line, _, rest = rest.partition(b"\n")
            lines.append([int(word) for word in line.split()])
        place, found = 0, []
        for number in range(1 + inputs + registers, 1 + inputs + registers + gates):
            first, place = _number(rest, place)
            second, place = _number(rest, place)
            found.append((2 * number - first, 2 * number - first - second))
        named = dict(re.findall(r"^([ilo]\d+) (.+)$", rest[place:].decode(), re.MULTILINE))
        names = [
            [named.get(f"{letter}{k}", f"{letter}{k}") for k in range(count)]
            for letter, count in (("i", inputs), ("l", registers), ("o", outputs))
        ]
        return cls(
            names[0],
            names[1],
            names[2],
            [line[0] for line in lines[:registers]],
            [min(line[1], 2) if len(line) > 1 else 0 for line in lines[:registers]],
            [line[0] for line in lines[registers:]],
            found,
            list(range(inputs + registers)),
        )

    @cached_property
    def levels(self) -> list[NDArray[np.int64]]:
        """Numbers and operands of gates, of each level those that need only levels before it."""
        depth, found = [0] * (1 + len(self.given)), list[list[tuple[int, int, int]]]()
        for number, (a, b) in enumerate(self.gates, len(depth)):
            depth.append(1 + max(depth[a >> 1], depth[b >> 1]))
            if depth[-1] > len(found):
                found.append([])
            found[depth[-1] - 1].append((number, a, b))
        return [np.array(level, np.int64).T for level in found]

    def in_order_of(self, other: "Circuit") -> "Circuit":
        """The same with names in the order of another; a ValueError where these are others."""
        lists = (
            (self.inputs, other.inputs),
            (self.registers, other.registers),
            (self.outputs, other.outputs),
        )
        for own, names in lists:
            if sorted(own) != sorted(names) or len(set(own)) < len(own):
                raise ValueError("names differ")
        _, register, output = ({name: k for k, name in enumerate(own)} for own, _ in lists)
        place = {name: k for k, name in enumerate(other.inputs)}
        place_of_register = {name: k for k, name in enumerate(other.registers, len(place))}
        return replace(
            other,
            following=[self.following[register[name]] for name in other.registers],
            starts=[self.starts[register[name]] for name in other.registers],
            shown=[self.shown[output[name]] for name in other.outputs],
            gates=self.gates,
            given=[
                *(place[name] for name in self.inputs),
                *(place_of_register[name] for name in self.registers),
            ],
        )


def _number(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


@dataclass
class Builder:
    """New AND gates, each pair of operands once; what is constant is no gate."""

    inputs: int
    gates: list[tuple[int, int]] = field(default_factory=list)
    known: dict[tuple[int, int], int] = field(default_factory=dict)

    def both(self, a: int, b: int) -> int:
        a, b = max(a, b), min(a, b)
        if b == 0 or a == b ^ 1:
            return 0
        if b == 1 or a == b:
            return a
        if (a, b) not in self.known:
            self.gates.append((a, b))
            self.known[a, b] = 2 * (self.inputs + len(self.gates))
        return self.known[a, b]

    def any(self, literals: Iterable[int]) -> int:
        none = 1
        for literal in literals:
            none = self.both(none, literal ^ 1)
        return none ^ 1

    def differ(self, a: int, b: int) -> int:
        return self.any((self.both(a, b ^ 1), self.both(a ^ 1, b)))

    def copy(self, circuit: Circuit, given: list[int]) -> tuple[list[int], list[int]]:
        """Literals of outputs, and of what registers become, where ``given`` has all else."""
        values = [0, *(given[k] for k in circuit.given)]
        for a, b in circuit.gates:
            values.append(self.both(values[a >> 1] ^ a & 1, values[b >> 1] ^ b & 1))
        shown, following = (
            [values[a >> 1] ^ a & 1 for a in literals]
            for literals in (circuit.shown, circuit.following)
        )
        return shown, following

    def write(self, path: Path, output: int) -> None:
        """Write it as binary AIGER with one output."""
        count = self.inputs + len(self.gates)
        text = [f"aig {count} {self.inputs} 0 1 {len(self.gates)}\n{output}\n".encode()]
        for number, (a, b) in enumerate(self.gates, 1 + self.inputs):
            text += [_delta(2 * number - a), _delta(a - b)]
        path.write_bytes(b"".join(text))


def _delta(value: int) -> bytes:
    found = []
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


class Pair:
    """Two circuits, and a guess which registers may differ and which are guards meanwhile."""

    def __init__(self, gold: Circuit, gate: Circuit):
        self.gold, self.sides = gold, (gold, gate.in_order_of(gold))
        self.inputs, self.registers = len(gold.inputs), len(gold.registers)
        starts = np.array([side.starts for side in self.sides]).reshape(2, -1)
        self.starts = np.where(starts[0] == 1, _ONES, _NONE)[:, None]
        self.differing = starts[0] != starts[1]
        # The bits of a register have the same guards, by its number: at first all that there are.
        # What may be anything at power-up is the same in both then, but guards nothing.
        words = [re.sub(r"\[\d+\]", "", name) for name in gold.registers]
        self.word = np.unique(words, return_inverse=True)[1]
        self.guards = np.tile(~self.differing & (starts[0] < 2), (max(len(words), 1), 1))

    def question(self) -> tuple[Builder, int]:
        """Gates, and a literal that is 1 in what refutes the guess.

        Inputs are those of the circuits, their registers, and the differing ones once more, which
        count where all guards are as after a reset.
        """
        differing = np.flatnonzero(self.differing).tolist()
        builder = Builder(self.inputs + self.registers + len(differing))
        given = [2 * (1 + k) for k in range(self.inputs + self.registers)]
        guards = {k: np.flatnonzero(self.guards[k]).tolist() for k in set(self.word[differing])}

        def left(state: list[int]) -> dict[int, int]:
            """By differing register, whether a guard is not as after a reset."""
            return {
                word: builder.any(state[k] ^ self.gold.starts[k] for k in of)
                for word, of in guards.items()
            }

        other, is_left = list(given), left(given[self.inputs :])
        for number, k in enumerate(differing, len(given)):
            same, free = is_left[self.word[k]], 2 * (1 + number)
            both = builder.both(same, given[self.inputs + k]), builder.both(same ^ 1, free)
            other[self.inputs + k] = builder.any(both)
        (shown, following), (shown2, following2) = map(builder.copy, self.sides, (given, other))
        unlike = [builder.differ(*two) for two in zip(following, following2, strict=True)]
        bad = [builder.differ(*two) for two in zip(shown, shown2, strict=True)]
        bad += [unlike[k] for k in range(self.registers) if not self.differing[k]]
        is_left = left(following)
        bad += [builder.both(unlike[k], is_left[self.word[k]]) for k in differing]
        return builder, builder.any(bad)

    def draw(self, rng: np.random.Generator) -> tuple[Bits, Bits, Bits]:
        """Inputs and states for which the guess holds: equal ones, and ones that differ."""
        inputs, state = (
            _random(rng, np.zeros((self.inputs, 1), np.uint64)),
            _random(rng, self.starts),
        )
        words = np.unique(self.word[self.differing])
        chosen = words[rng.random(len(words)) < rng.choice([0.2, 0.5, 1.0])]
        guarded = np.where(self.guards[chosen].any(0)[:, None], self.starts, state)
        differs = self.differing & np.isin(self.word, chosen)
        other = np.where(differs[:, None], _random(rng, self.starts), guarded)
        return (
            np.hstack([inputs, inputs]),
            np.hstack([state, guarded]),
            np.hstack([state, other]),
        )

    def shown_by(self, said: str) -> tuple[Bits, Bits, Bits]:
        """Inputs and states of what ABC showed, in the order of the question."""
        bits = np.array([int(bit) for bit in re.findall(r"^[01]+", said)[0]])
        patterns = np.where(bits, _ONES, _NONE)[:, None]
        inputs, state, free = np.split(patterns, [self.inputs, self.inputs + self.registers])
        is_left = (self.guards & (state != self.starts).T).any(1)[self.word]
        other = state.copy()
        other[self.differing] = free
        return inputs, state, np.where(is_left[:, None], state, other)

    def near(
        self, rng: np.random.Generator, inputs: Bits, state: Bits, other: Bits
    ) -> tuple[Bits, Bits, Bits]:
        """Patterns that are like one in most bits, and in all that differ or guard what does."""
        differs = (state != other)[:, 0]
        guards = self.guards[np.unique(self.word[differs])].any(0)
        near, more = state ^ _few(rng, len(state)), inputs ^ _few(rng, len(inputs))
        near = np.where((guards | differs)[:, None], state, near)
        return more, near, np.where(differs[:, None], other, near)

    def correct(self, inputs: Bits, state: Bits, other: Bits) -> tuple[bool, frozenset[str]]:
        """Correct the guess by patterns; whether anything was wrong, and outputs that differ."""
        (shown, following), (shown2, following2) = (
            _simulate(side, inputs, each)
            for side, each in zip(self.sides, (state, other), strict=True)
        )
        before = self.differing.sum(), self.guards.sum()
        unlike = following ^ following2
        changed = np.flatnonzero(unlike.any(1))
        for word in np.unique(self.word[changed]):
            stays = np.bitwise_or.reduce(unlike[self.word == word], 0)
            self.guards[word] &= ~((following ^ self.starts) & stays).any(1)
        self.differing[changed] = True
        self.guards &= ~self.differing
        seen = np.flatnonzero((shown ^ shown2).any(1))
        corrected = before != (self.differing.sum(), self.guards.sum())
        return corrected, frozenset(self.gold.outputs[k] for k in seen)


def look_for_unread(gold: Path, gate: Path, seconds: int) -> Unread:
    """Look for a proof about two AIGER files of a folder in about so much time."""
    folder = gold.parent
    end, rng = time.monotonic() + seconds, np.random.default_rng(0)
    try:
        pair = Pair(Circuit.read(gold), Circuit.read(gate))
    except ValueError:
        return Unread()
    quiet = 0
    while quiet < ROUNDS and time.monotonic() < end:
        corrected, seen = pair.correct(*pair.draw(rng))
        if seen:
            return Unread(seen=seen)
        quiet = 0 if corrected else quiet + 1
    while (left := int(end - time.monotonic())) > 0:
        builder, bad = pair.question()
        if bad == 0:  # without a gate
            return Unread(is_proved=True)
        builder.write(folder / "unread.aig", bad)
        answer = ask(folder, "read unread.aig; strash; iprove; write_cex unread.txt", left)
        if "UNSATISFIABLE" in answer:
            return Unread(is_proved=True)
        if "SATISFIABLE" not in answer:
            break
        shown = pair.shown_by((folder / "unread.txt").read_text())
        corrected, seen = pair.correct(*shown)
        if seen or not corrected:
            return Unread(seen=seen)
        # What ABC shows refutes one guard; what is like it refutes others.
        for _ in range(ROUNDS):
            _, seen = pair.correct(*pair.near(rng, *shown))
            if seen:
                return Unread(seen=seen)
    return Unread()


def _random(rng: np.random.Generator, usual: Bits) -> Bits:
    """Patterns, of which a share that is drawn too is as ``usual``."""

    def bits() -> Bits:
        return rng.integers(0, _ONES, (len(usual), WORDS), np.uint64, endpoint=True)

    as_usual = bits() if rng.random() < 0.5 else bits() | bits() | bits()
    return (bits() & ~as_usual) | (usual & as_usual)


def _few(rng: np.random.Generator, rows: int) -> Bits:
    """Patterns in which one bit of eight is 1."""
    drawn = rng.integers(0, _ONES, (3, rows, WORDS), np.uint64, endpoint=True)
    return drawn[0] & drawn[1] & drawn[2]


def _simulate(circuit: Circuit, inputs: Bits, state: Bits) -> tuple[Bits, Bits]:
    """Values of outputs, and of what registers become."""
    given = np.concatenate([inputs, state])[circuit.given]
    values = np.zeros((1 + len(given) + len(circuit.gates), given.shape[1]), np.uint64)
    values[1 : 1 + len(given)] = given

    def of(literals: NDArray[np.int64]) -> Bits:
        found: Bits = values[literals >> 1]
        return found ^ np.where(literals & 1, _ONES, _NONE)[:, None]

    for numbers, one, two in circuit.levels:
        values[numbers] = of(one) & of(two)
    return of(np.array(circuit.shown, np.int64)), of(np.array(circuit.following, np.int64))
