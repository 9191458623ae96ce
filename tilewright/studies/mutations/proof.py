"""Whether a mutant does what its block does, from power-up on: asked of ABC.

Both are made AND gates and registers, and ABC looks for signals of the two that are always equal
(`dsec`), or for an induction in which registers differ while nobody reads them (`unread`). A
payload counts only while its stream offers it, as the rules of streams say; memories of more than a
few thousand bits are cut out of both: what is read from them is anything, and what is written must
be the same. The module with the change is compared alone first, then those around it: what does the
same whatever it is given does so in the block, and is a smaller question. Of a machine, which is
too large as a whole, that is the only question; where its top is the module with the change, all
that stands in the top is cut out as memories are, but for what a difference reaches.
"""

import re
import tempfile
from enum import StrEnum
from pathlib import Path

from tilewright.studies.mutations.abc import ask
from tilewright.studies.mutations.unread import look_for_unread
from tilewright.synth.yosys import run_yosys

__all__ = ["Answer", "compare"]

SECONDS = 300  # of processor time; what proves something of a machine takes up to 200
KEPT_BITS = 4096  # of a memory that is not cut out
_SIDES = ("gold", "gate")
_FLAT = ("proc", "memory_dff", "flatten")
_GATES = (
    *("memory_map", "opt_clean -purge", "dffunmap", "techmap", "simplemap", "setundef -zero"),
    *("aigmap", "opt_clean -purge"),
)
_PORT = re.compile(r"^  wire width (\d+) (input|output) \d+ +\\(\S+)$", re.MULTILINE)
# The payload of a stream, or a signal of an AXI channel.
_OFFERED = re.compile(r"(.*__)payload|(.*_axi_(?:ar|aw|b|r|w))\w+")
_MEMORY = re.compile(r"^  memory width (\d+) size (\d+) ", re.MULTILINE)


class Answer(StrEnum):
    """What ABC found."""

    SAME = "same"  # in every cycle, for all inputs
    UNREAD = "unread"  # so, too: registers differ, but only while nobody reads them
    DIFFERENT = "different"  # for some inputs, in some cycle
    UNKNOWN = "unknown"  # the time was not enough

    @property
    def is_proof(self) -> bool:
        """Whether no input shows a difference."""
        return self in (Answer.SAME, Answer.UNREAD)

    @property
    def method(self) -> str:
        """How it is proved, where that is more than signals that are always equal."""
        return (
            "proved: registers differ only while nobody reads them" if self is Answer.UNREAD else ""
        )


def compare(rtlil: str, mutant: str, seconds: int = SECONDS, *, whole: bool = True) -> Answer:
    """Whether two texts of RTLIL, the top first in each, describe the same circuit.

    Where the ``whole`` is not to be looked at, a difference within it is unknown to be one of it.
    """
    top, changed = _modules(rtlil)[0][0], _changed_module(rtlil, mutant)
    cut = _large_memories(rtlil, mutant)
    for name in _enclosing(rtlil, changed):
        alone = _with_all_within(rtlil, name), _with_all_within(mutant, name)
        answer, _ = _compare(*alone, cut, seconds, is_block=False)
        if answer.is_proof:
            return answer
    if whole:
        return _compare(rtlil, mutant, cut, seconds, is_block=True)[0]
    return _compare_top(rtlil, mutant, cut, seconds) if changed == top else Answer.UNKNOWN


def _compare_top(rtlil: str, mutant: str, memories: list[str], seconds: int) -> Answer:
    """All that stands in the top is cut out; what a difference is given to is put back."""
    kept = [_modules(rtlil)[0][0]]
    while True:
        shells = _shell(rtlil, kept), _shell(mutant, kept)
        cut = [name for name, _ in _modules(shells[0]) if name not in kept or name in memories]
        answer, seen = _compare(*shells, cut, seconds, is_block=True, is_whole=False)
        given = {_module_at(shells[0], name) for name in seen}
        if answer.is_proof:
            return answer
        if not given or not given.isdisjoint((*kept, *memories)):
            break
        kept += sorted(given)
    answer, _ = _compare(*shells, cut, seconds, is_block=True)
    return answer if answer.is_proof else Answer.UNKNOWN


def _compare(
    rtlil: str,
    mutant: str,
    cut: list[str],
    seconds: int,
    *,
    is_block: bool,
    is_whole: bool = True,
) -> tuple[Answer, frozenset[str]]:
    """As :func:`compare`, and the outputs in which a difference of registers was seen.

    Payloads that are not offered count, too, where it is no block. Where it is not the whole of
    what may be looked at, no more time is spent on it once a difference was seen.
    """
    (top, _), *others = _modules(rtlil)
    cut = [name for name in cut if name in dict(others)]
    with tempfile.TemporaryDirectory(prefix="tilewright-") as place:
        folder = Path(place)
        (folder / "around.v").write_text(_around(rtlil, top, is_block))
        for side, text in zip(_SIDES, (rtlil, mutant), strict=True):
            (folder / f"{side}.il").write_text(text)
            run_yosys(_commands(side, cut), folder)
        return _ask(folder, seconds, is_whole)


def _commands(side: str, cut: list[str]) -> list[str]:
    """From the text of a side to its gates; memories of ``cut`` become ports."""
    read = [f"read_rtlil {side}.il", "read_verilog around.v", "hierarchy -top around"]
    kept = [f"setattr -mod -set keep_hierarchy 1 {name}" for name in cut]
    ports = ["expose -evert around/c:*", "select -module around"] if cut else []
    # Registers are as they are, and, for `dsec`, inverted where they start at 1.
    written = [f"write_aiger -symbols {side}.own.aig", f"write_aiger -zinit -symbols {side}.aig"]
    return [*read, *kept, *_FLAT, *ports, *_GATES, *written]


def _ask(folder: Path, seconds: int, is_whole: bool) -> tuple[Answer, frozenset[str]]:
    """From register to register first; what differs there may do so in no state that is reached."""
    cut = [f"read {side}.aig; comb; write {side}.comb.aig" for side in _SIDES]
    first = _abc(folder, "; ".join([*cut, "cec gold.comb.aig gate.comb.aig"]), seconds // 3)
    latches = [(folder / f"{side}.aig").read_bytes().split(maxsplit=4)[3] for side in _SIDES]
    if latches[0] == latches[1] and (first is Answer.SAME or latches[0] == b"0"):
        return first, frozenset()
    found = look_for_unread(folder / "gold.own.aig", folder / "gate.own.aig", seconds)
    if found.is_proved:
        return Answer.UNREAD, frozenset()
    if found.seen and not is_whole:
        return Answer.UNKNOWN, found.seen
    return _abc(folder, "dsec gold.aig gate.aig", seconds), found.seen


def _abc(folder: Path, command: str, seconds: int) -> Answer:
    said = ask(folder, command, seconds)
    if "Networks are equivalent" in said:
        return Answer.SAME
    return Answer.DIFFERENT if "NOT EQUIVALENT" in said else Answer.UNKNOWN


def _modules(rtlil: str) -> list[tuple[str, str]]:
    """Names and texts."""
    return re.findall(r"^module \\?(\S+)$(.*?)^end$", rtlil, re.MULTILINE | re.DOTALL)


def _large_memories(rtlil: str, mutant: str) -> list[str]:
    """Modules that hold a large memory and are the same in both."""
    other = dict(_modules(mutant))
    return [
        name
        for name, text in _modules(rtlil)
        if sum(int(m[1]) * int(m[2]) for m in _MEMORY.finditer(text)) > KEPT_BITS
        and other.get(name) == text
    ]


def _changed_module(rtlil: str, mutant: str) -> str:
    """The name of the module that differs; none where it is more than one."""
    after = dict(_modules(mutant))
    changed = [name for name, text in _modules(rtlil) if after.get(name) != text]
    return changed[0] if len(changed) == 1 else ""


def _with_all_within(rtlil: str, name: str) -> str:
    """A module, and those that stand in it."""
    modules, names = dict(_modules(rtlil)), [name]
    for each in names:  # grows
        names += [cell for cell in _instances(modules, each) if cell not in names]
    return _joined(modules, names)


def _enclosing(rtlil: str, name: str) -> list[str]:
    """A module and those around it, below the top, as far as each stands in one module alone."""
    modules, found = dict(_modules(rtlil)), []
    while name in modules and name != next(iter(modules)):
        found.append(name)
        around = [each for each in modules if name in _instances(modules, each)]
        name = around[0] if len(around) == 1 else ""
    return found


def _shell(rtlil: str, kept: list[str]) -> str:
    """Modules as they are, the top first, and of those that stand in them the ports alone."""
    modules = dict(_modules(rtlil))
    within = dict.fromkeys(cell for name in kept for cell in _instances(modules, name))
    others = [name for name in within if name not in kept]
    for name in others:
        ports = (found[0] for found in _PORT.finditer(modules[name]))
        modules[name] = "\n".join(["", *ports, ""])
    return _joined(modules, [*kept, *others])


def _module_at(rtlil: str, name: str) -> str:
    """The module that a signal belongs to, which is named as in a flat circuit with all of it."""
    modules, module = dict(_modules(rtlil)), _modules(rtlil)[0][0]
    for part in name.split(".")[1:]:
        cell = re.search(rf"^  cell \\?(\S+) \\{re.escape(part)}$", modules[module], re.MULTILINE)
        if not cell or cell[1] not in modules:
            break
        module = cell[1]
    return module


def _instances(modules: dict[str, str], name: str) -> list[str]:
    """The modules that stand in a module."""
    cells = re.findall(r"^  cell \\?(\S+) ", modules[name], re.MULTILINE)
    return [cell for cell in dict.fromkeys(cells) if cell in modules]


def _joined(modules: dict[str, str], names: list[str]) -> str:
    return "".join(f"module \\{name}{modules[name]}end\n" for name in names)


def _around(rtlil: str, top: str, is_block: bool) -> str:
    """A module with the ports of ``top``, where a payload of a block that is not offered is 0."""
    ports = [(int(m[1]), m[2], m[3]) for m in _PORT.finditer(dict(_modules(rtlil))[top])]
    outputs = {name for _, way, name in ports if way == "output"}
    lines = ["module around("]
    lines.append(",\n".join(f"{way} [{bits - 1}:0] \\{name} " for bits, way, name in ports) + ");")
    given = []
    for bits, way, name in ports:
        valid = _OFFERED.sub(lambda found: f"{found[1] or found[2]}valid", name)
        if is_block and way == "output" and valid != name and valid in outputs:
            lines.append(f"wire [{bits - 1}:0] \\own.{name} ;")
            lines.append(f"assign \\{name} = \\{valid} ? \\own.{name} : {bits}'b0;")
            given.append(f".\\{name} (\\own.{name} )")
        else:
            given.append(f".\\{name} (\\{name} )")
    return "\n".join([*lines, f"\\{top} top (", ",\n".join(given) + ");", "endmodule", ""])
