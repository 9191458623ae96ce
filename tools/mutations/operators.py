"""Errors that can be planted in a block: the RTLIL of the block with one place changed.

The text is Amaranth's: one declaration or connection per line, cells and processes in blocks.
Clock and reset are left alone, for any bench finds a block without them; reset values are not.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

KINDS = (
    "operands swapped",
    "operator replaced",
    "constant off by one",
    "condition inverted",
    "enable dropped",
    "bit stuck",
    "reset value wrong",
)

_ORDERED = ("$sub", "$lt", "$le", "$gt", "$ge", "$shl", "$shr", "$sshr", "$mux")
_REPLACED = {
    **{"$add": "$sub", "$sub": "$add", "$mul": "$add"},
    **{"$and": "$or", "$or": "$and", "$xor": "$or"},
    **{"$eq": "$ne", "$ne": "$eq", "$lt": "$le", "$le": "$lt", "$gt": "$ge", "$ge": "$gt"},
    **{"$not": "$pos", "$neg": "$pos"},
    **{"$reduce_or": "$reduce_and", "$reduce_and": "$reduce_or", "$reduce_xor": "$reduce_or"},
    **{"$reduce_bool": "$reduce_and", "$shl": "$shr", "$shr": "$shl", "$sshr": "$shr"},
}
_CONSTANT = re.compile(r"(\d+)'([01]+)$")
_SLICE = re.compile(r"(\S+) \[(\d+)(?::(\d+))?\]$")
_CONNECT = re.compile(r" +connect (\\\w+) (.+)$")
_OPERAND = re.compile(r" +(?:connect|parameter) \\[AB][ _]")


@dataclass(frozen=True)
class Mutation:
    """One error: its kind, its place in words, and the lines that it changes."""

    kind: str  # one of KINDS
    module: str
    place: str  # cell or process
    change: str
    lines: tuple[tuple[int, str], ...]  # numbers from 0, and the new lines


def apply(text: str, mutation: Mutation) -> str:
    """Return ``text`` with the error planted."""
    lines = text.split("\n")
    for number, line in mutation.lines:
        lines[number] = line
    if mutation.kind == "reset value wrong":
        # Other wires connected to a register repeat its value at power-up, and no tool accepts
        # two: only the declarations of the registers themselves stay.
        for start, line in enumerate(lines):
            if line.startswith("module "):
                registers, inits = _registers(lines, start)
                for wire in inits.keys() - set(registers.values()):
                    lines[inits[wire]] = ""
    return "\n".join(lines)


def sample(text: str, count: int, seed: str, wrapped: str = "") -> list[Mutation]:
    """Draw ``count`` errors, the kinds in turn; the same ones for the same text and seed.

    Errors within ``wrapped``, an instance in the top module, are left out.
    """
    rng = random.Random(seed)
    top = re.findall(r"^module \\(\S+)$", text, re.MULTILINE)[0]
    found: dict[str, list[Mutation]] = {kind: [] for kind in KINDS}
    for mutation in mutations(text):
        module = f"{mutation.module}."
        own = module.startswith(f"{top}.") and not module.startswith(f"{top}.{wrapped}.")
        if own or not wrapped:
            found[mutation.kind].append(mutation)
    for each in found.values():
        rng.shuffle(each)
    order = list(KINDS)
    rng.shuffle(order)
    drawn: list[Mutation] = []
    while len(drawn) < count and any(found.values()):
        drawn += [found[kind].pop() for kind in order if found[kind]]
    return drawn[:count]


def mutations(text: str) -> Iterator[Mutation]:
    """List every error that can be planted in ``text``."""
    lines = text.split("\n")
    module, start = "", 0
    for number, line in enumerate(lines):
        if line.startswith("module "):
            module = line.split()[1].removeprefix("\\")
            registers, inits = _registers(lines, number)
        elif line.startswith(("  cell ", "  process ")):
            start = number
        elif line == "  end":
            place = lines[start].strip()
            if place.startswith("cell "):
                found = _in_cell(lines, start, number)
            else:
                found = _in_process(lines, start, number, registers, inits)
            for kind, change, changed in found:
                yield Mutation(kind, module, place, change, tuple(changed))


# The kind of an error, the change in words, and the changed lines.
Change = tuple[str, str, list[tuple[int, str]]]


def _in_cell(lines: list[str], start: int, end: int) -> Iterator[Change]:
    kind = lines[start].split()[1]
    ports = {
        match[1]: (number, match[2])
        for number in range(start + 1, end)
        if (match := _CONNECT.match(lines[number]))
    }
    if kind in _ORDERED:
        operands = [n for n in range(start + 1, end) if _OPERAND.match(lines[n])]
        swapped = [(n, re.sub(r"\\([AB])", _other_operand, lines[n])) for n in operands]
        yield "operands swapped", "A and B", swapped
    if new := _REPLACED.get(kind):
        line = lines[start].replace(f"cell {kind} ", f"cell {new} ")
        yield "operator replaced", f"{kind} to {new}", [(start, line)]
    if kind == "$memwr_v2" and not _CONSTANT.match(ports["\\EN"][1]):
        text = "\n".join(lines[start:end])
        width = int(re.findall(r" \\WIDTH (\d+)$", text, re.MULTILINE)[0])
        line = f"    connect \\EN {width}'{'1' * width}"
        yield "enable dropped", "writes always", [(ports["\\EN"][0], line)]
    if not kind.startswith("$") or kind.startswith(("$mem", "$dff", "$print", "$check")):
        return
    for port in [port for port in ("\\A", "\\B") if port in ports]:
        number, old = ports[port]
        if _CONSTANT.match(old):
            new = _incremented(old)
            line = f"    connect {port} {new}"
            yield "constant off by one", f"{old} to {new}", [(number, line)]
        elif match := _SLICE.match(old):
            wire, high, low = match[1], int(match[2]), int(match[3] or match[2])
            for bit in range(low, high + 1):
                parts = [f"{wire} [{high}:{bit + 1}]"] * (bit < high)
                parts += [f"1'{bit & 1}"] + [f"{wire} [{bit - 1}:{low}]"] * (bit > low)
                line = f"    connect {port} {{ {' '.join(parts)} }}"
                yield "bit stuck", f"{wire} [{bit}] at {bit & 1}", [(number, line)]


def _in_process(
    lines: list[str], start: int, end: int, registers: dict[str, str], inits: dict[str, int]
) -> Iterator[Change]:
    in_reset = False
    for number in range(start + 1, end):
        line = lines[number]
        words = line.split()
        if words[0] == "switch":
            in_reset = line.strip() == "switch \\rst [0]"
            case = lines[number + 1]
            if not in_reset and case.split() == ["case", "1'1"]:
                signal = line.strip().removeprefix("switch ")
                inverted = [(number + 1, case.replace("1'1", "1'0"))]
                yield "condition inverted", f"if not {signal}", inverted
                always = line.replace(f"switch {signal}", "switch 1'1")
                yield "enable dropped", f"{signal} taken as 1", [(number, always)]
        elif words[0] == "assign" and _CONSTANT.match(old := words[-1]):
            register = registers.get(" ".join(words[1:-1]), "")
            if not in_reset:
                new = _incremented(old)
                change = f"{old} to {new}, assigned to {words[1]}"
                yield "constant off by one", change, [(number, line.replace(old, new))]
            elif register in inits:  # the value at power-up is the same
                new = old[:-1] + "10"[int(old[-1])]
                at = inits[register]
                changed = [(number, line.replace(old, new))]
                changed += [(at, f"{lines[at].rpartition(' ')[0]} {new}")]
                yield "reset value wrong", f"{register}: {old} to {new}", changed


def _other_operand(match: re.Match[str]) -> str:
    return {"A": "\\B", "B": "\\A"}[match[1]]


def _incremented(constant: str) -> str:
    width, bits = constant.split("'")
    return f"{width}'{(int(bits, 2) + 1) % (1 << int(width)):0{width}b}"


def _registers(lines: list[str], start: int) -> tuple[dict[str, str], dict[str, int]]:
    """Registers of the module at ``start``, by what they take; and lines with power-up values."""
    registers, inits, taken = {}, {}, ""
    for number in range(start, lines.index("end", start)):
        line = lines[number]
        if line.startswith("    connect \\D "):
            taken = line.removeprefix("    connect \\D ")
        elif line.startswith("    connect \\Q ") and taken:
            registers[taken], taken = line.removeprefix("    connect \\Q "), ""
        elif line.startswith("  attribute \\init ") and lines[number + 1].startswith("  wire "):
            inits[lines[number + 1].split()[-1]] = number
    return registers, inits
