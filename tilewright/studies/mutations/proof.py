"""Whether a mutant does what its block does, from power-up on: asked of ABC.

Both are made AND gates and registers, and ABC looks for signals of the two that are always equal
(`dsec`). A payload counts only while its stream offers it, as the rules of streams say; memories of
more than a few thousand bits are cut out of both: what is read from them is anything, and what
is written must be the same. The module with the change is compared alone first: what does the same
whatever it is given does so in the block, and is a smaller question. Of a machine, which is too
large as a whole, that is the only question; where its top is the module with the change, all that
stands in the top is cut out as memories are.
"""

import re
import subprocess
import tempfile
from enum import StrEnum
from pathlib import Path

import pyosys

from tilewright.synth.yosys import run_yosys

__all__ = ["Answer", "compare"]

SECONDS = 120  # of processor time
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
    DIFFERENT = "different"  # for some inputs, in some cycle
    UNKNOWN = "unknown"  # the time was not enough


def compare(rtlil: str, mutant: str, seconds: int = SECONDS, *, whole: bool = True) -> Answer:
    """Whether two texts of RTLIL, the top first in each, describe the same circuit.

    Where the ``whole`` is not to be looked at, a difference within it is unknown to be one of it.
    """
    top, changed = _modules(rtlil)[0][0], _changed_module(rtlil, mutant)
    cut = _large_memories(rtlil, mutant)
    if changed and changed != top:
        alone = _with_all_within(rtlil, changed), _with_all_within(mutant, changed)
        if _compare(*alone, cut, seconds, is_block=False) is Answer.SAME:
            return Answer.SAME
    if whole:
        return _compare(rtlil, mutant, cut, seconds, is_block=True)
    if changed == top:
        shells = _shell(rtlil), _shell(mutant)
        within = [name for name, _ in _modules(shells[0])]
        if _compare(*shells, within, seconds, is_block=True) is Answer.SAME:
            return Answer.SAME
    return Answer.UNKNOWN


def _compare(rtlil: str, mutant: str, cut: list[str], seconds: int, *, is_block: bool) -> Answer:
    """As :func:`compare`; payloads that are not offered count, too, where it is no whole block."""
    (top, _), *others = _modules(rtlil)
    cut = [name for name in cut if name in dict(others)]
    with tempfile.TemporaryDirectory(prefix="tilewright-") as place:
        folder = Path(place)
        (folder / "around.v").write_text(_around(rtlil, top, is_block))
        for side, text in zip(_SIDES, (rtlil, mutant), strict=True):
            (folder / f"{side}.il").write_text(text)
            run_yosys(_commands(side, cut), folder)
        return _ask(folder, seconds)


def _commands(side: str, cut: list[str]) -> list[str]:
    """From the text of a side to its gates; memories of ``cut`` become ports."""
    read = [f"read_rtlil {side}.il", "read_verilog around.v", "hierarchy -top around"]
    kept = [f"setattr -mod -set keep_hierarchy 1 {name}" for name in cut]
    ports = ["expose -evert around/c:*", "select -module around"] if cut else []
    written = f"write_aiger -zinit -symbols {side}.aig"
    return [*read, *kept, *_FLAT, *ports, *_GATES, written]


def _ask(folder: Path, seconds: int) -> Answer:
    """From register to register first; what differs there may do so in no state that is reached."""
    cut = [f"read {side}.aig; comb; write {side}.comb.aig" for side in _SIDES]
    first = _abc(folder, "; ".join([*cut, "cec gold.comb.aig gate.comb.aig"]), seconds // 3)
    latches = [(folder / f"{side}.aig").read_bytes().split(maxsplit=4)[3] for side in _SIDES]
    if first is Answer.SAME and latches[0] == latches[1]:
        return Answer.SAME
    return _abc(folder, "dsec gold.aig gate.aig", seconds) if latches[0] != b"0" else first


def _abc(folder: Path, command: str, seconds: int) -> Answer:
    abc = str(Path(pyosys.__file__).with_name("yosys-abc"))
    done = subprocess.run(
        ["sh", "-c", f'ulimit -t {seconds}; exec "$0" -c "{command}"', abc],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if "Networks are equivalent" in done.stdout:
        return Answer.SAME
    return Answer.DIFFERENT if "NOT EQUIVALENT" in done.stdout else Answer.UNKNOWN


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


def _shell(rtlil: str) -> str:
    """The top as it is, and of the modules that stand in it the ports alone."""
    modules, top = dict(_modules(rtlil)), _modules(rtlil)[0][0]
    within = _instances(modules, top)
    for name in within:
        ports = (found[0] for found in _PORT.finditer(modules[name]))
        modules[name] = "\n".join(["", *ports, ""])
    return _joined(modules, [top, *within])


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
