"""Places of RTLIL where one thing can be wrong, and the text with that thing wrong.

The text is Amaranth's own: one declaration or connection a line, cells and processes in blocks.
Reset and clock are changed by no operator but that of reset values: a block that is never reset, or
never clocked, is found by anything.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["KINDS", "Site", "apply_to", "comparable", "mutated", "sample", "sites_of"]

KINDS = (
    "operands swapped",
    "operator replaced",
    "constant off by one",
    "condition inverted",
    "enable dropped",
    "bit stuck",
    "reset value wrong",
)

# Operators whose operands do not commute. Those of $mux are chosen from.
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
_RESET = re.compile(r" +switch \\rst \[0\]$")


@dataclass(frozen=True)
class Site:
    """A change of some lines of a text: what is wrong there, in words, and the new lines."""

    kind: str  # of KINDS
    where: str  # the module, and the cell, wire or process
    change: str
    lines: tuple[tuple[int, str], ...]  # number of a line from 0, and what it becomes


def apply_to(text: str, site: Site) -> str:
    """Return ``text`` with the lines of ``site`` changed."""
    lines = text.split("\n")
    for number, line in site.lines:
        lines[number] = line
    return "\n".join(lines)


def mutated(text: str, site: Site) -> str:
    """Return ``text`` with an error in it, as tools take it.

    Wires that name a register once more, in its module or around it, say its value at power-up
    too. Where that is the error they would contradict, so that only the register says it.
    """
    changed = apply_to(text, site)
    return _said_once(changed) if site.kind == "reset value wrong" else changed


def comparable(text: str, site: Site) -> tuple[str, str]:
    """Return ``text`` and it with an error, alike in all but the error."""
    other = mutated(text, site)
    return (_said_once(text) if site.kind == "reset value wrong" else text), other


def _said_once(text: str) -> str:
    lines = text.split("\n")
    for start, line in enumerate(lines):
        if line.startswith("module "):
            registers = set(_registers(lines, start).values())
            for wire, (number, _) in _inits(lines, start).items():
                if wire not in registers:
                    lines[number] = ""
    return "\n".join(lines)


def sample(text: str, count: int, seed: str, besides: str = "") -> list[Site]:
    """Choose ``count`` sites, every kind in turn; the same for the same text and seed.

    ``besides`` names an instance within the top module. Sites are then of the top module and its
    other instances alone: of a wrapper, without what it wraps.
    """
    chosen: list[Site] = []
    rng = random.Random(seed)
    top = text.partition("module ")[2].partition("\n")[0].removeprefix("\\")
    found: dict[str, list[Site]] = {kind: [] for kind in KINDS}
    for site in sites_of(text):
        if not besides or _is_beside(site, top, besides):
            found[site.kind].append(site)
    for sites in found.values():
        rng.shuffle(sites)
    order = list(KINDS)
    rng.shuffle(order)
    while len(chosen) < count and any(found.values()):
        for kind in order:
            if found[kind] and len(chosen) < count:
                chosen.append(found[kind].pop())
    return chosen


def _is_beside(site: Site, top: str, instance: str) -> bool:
    """Whether a site is of the top module, whose name others begin with, but not of an instance."""
    module, within = f"{site.where.partition(',')[0]}.", f"{top}.{instance}."
    return module.startswith(f"{top}.") and not module.startswith(within)


def sites_of(text: str) -> Iterator[Site]:
    """Find every place of ``text`` that an operator applies to."""
    lines = text.split("\n")
    module, start = "", 0
    for number, line in enumerate(lines):
        if line.startswith("module "):
            module = line.split()[1].removeprefix("\\")
            inits = _inits(lines, number)
            registers = _registers(lines, number)
        elif line.startswith(("  cell ", "  process ")):
            start = number
        elif line == "  end":
            first = lines[start].split()
            if first[0] == "cell":
                yield from _of_cell(lines, start, number, f"{module}, {first[1]} {first[2]}")
            else:
                where = f"{module}, process {first[1]}"
                yield from _of_process(lines, start, number, where, inits, registers)


def _of_cell(lines: list[str], start: int, end: int, where: str) -> Iterator[Site]:
    kind = lines[start].split()[1]
    ports = {}
    for number in range(start + 1, end):
        if match := _CONNECT.match(lines[number]):
            ports[match[1]] = (number, match[2])
    if kind in _ORDERED:
        yield Site("operands swapped", where, "A and B", tuple(_swapped(lines, start, end)))
    if kind in _REPLACED:
        new = _REPLACED[kind]
        line = lines[start].replace(f"cell {kind} ", f"cell {new} ")
        yield Site("operator replaced", where, f"{kind} to {new}", ((start, line),))
    if kind == "$memwr_v2":
        number, old = ports["\\EN"]
        if not _CONSTANT.match(old):
            width = _parameter(lines, start, end, "WIDTH")
            line = f"    connect \\EN {width}'{'1' * width}"
            yield Site("enable dropped", where, "writes always", ((number, line),))
    if not kind.startswith("$") or kind.startswith(("$mem", "$dff", "$print", "$check")):
        return
    for port in ("\\A", "\\B"):
        if port not in ports:
            continue
        number, old = ports[port]
        if found := _CONSTANT.match(old):
            new = _next(found[1], found[2])
            line = f"    connect {port} {new}"
            yield Site("constant off by one", where, f"{old} to {new}", ((number, line),))
        elif found := _SLICE.match(old):
            for bit in _bits(found):
                yield _stuck(number, port, found, bit, where)


def _bits(found: re.Match[str]) -> range:
    high = int(found[2])
    return range(int(found[3]) if found[3] else high, high + 1)


def _stuck(number: int, port: str, found: re.Match[str], bit: int, where: str) -> Site:
    bits, value = _bits(found), bit & 1
    parts = [f"{found[1]} [{bits[-1]}:{bit + 1}]"] if bit < bits[-1] else []
    parts.append(f"1'{value}")
    parts += [f"{found[1]} [{bit - 1}:{bits[0]}]"] if bit > bits[0] else []
    line = f"    connect {port} {{ {' '.join(parts)} }}"
    return Site("bit stuck", where, f"{found[1]} [{bit}] at {value}", ((number, line),))


def _swapped(lines: list[str], start: int, end: int) -> Iterator[tuple[int, str]]:
    for number in range(start + 1, end):
        line = lines[number]
        if re.match(r" +(connect|parameter) \\[AB]( |_)", line):
            yield number, re.sub(r"\\([AB])", lambda m: "\\" + "BA"["AB".index(m[1])], line)


def _parameter(lines: list[str], start: int, end: int, name: str) -> int:
    for number in range(start + 1, end):
        if match := re.match(rf" +parameter \\{name} (\d+)$", lines[number]):
            return int(match[1])
    raise ValueError(f"a cell without {name}: {lines[start].strip()}")


def _next(width: str, bits: str) -> str:
    value = (int(bits, 2) + 1) % (1 << int(width))
    return f"{width}'{value:0{width}b}"


def _of_process(
    lines: list[str],
    start: int,
    end: int,
    where: str,
    inits: dict[str, tuple[int, str]],
    registers: dict[str, str],
) -> Iterator[Site]:
    resets = False
    for number in range(start + 1, end):
        line = lines[number]
        indent = line[: len(line) - len(line.lstrip())]
        words = line.split()
        if words[0] == "switch":
            resets = bool(_RESET.match(line))
            if not resets and lines[number + 1].split() == ["case", "1'1"]:
                signal = line.strip().removeprefix("switch ")
                inverted = lines[number + 1].replace("1'1", "1'0")
                change = ((number + 1, inverted),)
                yield Site("condition inverted", where, f"if not {signal}", change)
                always = ((number, f"{indent}switch 1'1"),)
                yield Site("enable dropped", where, f"{signal} taken as 1", always)
        elif words[0] == "assign" and _CONSTANT.match(words[-1]):
            if not resets:
                new = _next(*words[-1].split("'"))
                changed = ((number, line.replace(words[-1], new)),)
                told = f"{words[-1]} to {new}, assigned to {words[1]}"
                yield Site("constant off by one", where, told, changed)
                continue
            register = registers.get(" ".join(words[1:-1]), "")
            if register in inits:  # a wrong value is wrong at power-up and after a reset
                new = _flipped(words[-1])
                at, declared = inits[register]
                both = ((number, line.replace(words[-1], new)), (at, _of_init(declared, new)))
                told = f"{register}: {words[-1]} to {new}"
                yield Site("reset value wrong", where, told, both)


def _of_init(line: str, value: str) -> str:
    return line[: line.rindex(" ") + 1] + value


def _flipped(constant: str) -> str:
    width, bits = constant.split("'")
    return f"{width}'{bits[:-1]}{'10'[int(bits[-1])]}"


def _registers(lines: list[str], start: int) -> dict[str, str]:
    """What a flip-flop takes, and the wire that it drives, where it drives all of one."""
    found, given = {}, ""
    for number in range(start, len(lines)):
        line = lines[number]
        if line == "end":
            break
        if line.startswith("    connect \\D "):
            given = line.removeprefix("    connect \\D ")
        elif line.startswith("    connect \\Q ") and given:
            found[given], given = line.removeprefix("    connect \\Q "), ""
    return found


def _inits(lines: list[str], start: int) -> dict[str, tuple[int, str]]:
    """By wire, the line with its value at power-up."""
    found = {}
    for number in range(start, len(lines)):
        line = lines[number]
        if line == "end":
            break
        if line.startswith("  attribute \\init "):
            after = lines[number + 1]
            if after.startswith("  wire "):
                found[after.split()[-1]] = (number, line)
    return found
