"""Proofs that a changed circuit does what the original does, by Yosys and ABC.

Both are compared in every cycle from power-up on, for all inputs, as AND gates and registers. The
changed module is compared alone first, then the modules around it, and the whole block last: what
is the same for any inputs is the same in the block, and small circuits have quick proofs.

- The payload of a stream counts only while its ``valid`` is 1, and so do the signals of an AXI
  channel.
- Memories of more than a few thousand bits are cut out of both circuits: what they are given must
  be the same, what they return may be anything. Whole accelerators are too large for one proof, so
  that of these the modules in the top are cut out likewise.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tilewright.synth.yosys import run_abc, run_yosys

SECONDS = 300  # of processor time for each of ABC's methods
MEMORY_BITS = 4096  # largest memory that is not cut out
_TO_GATES = (
    *("memory_map", "opt_clean -purge", "dffunmap", "techmap", "simplemap", "setundef -zero"),
    *("aigmap", "opt_clean -purge"),
)
_METHODS = (
    "miter gold.aig gate.aig; strash; dprove",  # signals that are equal by induction
    "miter gold.aig gate.aig; strash; scorr; scorr -F 2; dc2; pdr",  # states that are reached
    "read gold.aig; comb; write gold.comb.aig; read gate.aig; comb; write gate.comb.aig;"
    " cec gold.comb.aig gate.comb.aig",  # gates between registers
)
_PROVED = re.compile(r"^(?:UNSATISFIABLE|Networks are equivalent|Property proved)", re.MULTILINE)
_REFUTED = re.compile(r"NOT EQUIVALENT|^SATISFIABLE|was asserted in frame", re.MULTILINE)
_MODULE = re.compile(r"^module \\(\S+)$(.*?)^end$", re.MULTILINE | re.DOTALL)
_CELL = re.compile(r"^  cell \\(\S+) ", re.MULTILINE)
_MEMORY = re.compile(r"^  memory width (\d+) size (\d+) ", re.MULTILINE)
_PORT = re.compile(r"^  wire width (\d+) (input|output) \d+ +\\(\S+)$", re.MULTILINE)
_PAYLOAD = re.compile(r"(.*__)payload|(.*_axi_(?:ar|aw|b|r|w))\w+")


def is_equivalent(gold: str, gate: str, changed: str, *, cut_top: bool = False) -> bool:
    """Whether a proof was found that RTLIL ``gate`` does what ``gold``, its top first, does.

    ``changed`` names the module with the error. With ``cut_top`` the block is too large to be
    compared as a whole.
    """
    modules = dict(_MODULE.findall(gold))
    top = next(iter(modules))
    memories = [
        name
        for name, text in modules.items()
        if name != changed and sum(int(w) * int(n) for w, n in _MEMORY.findall(text)) > MEMORY_BITS
    ]
    if any(_is_proved(gold, gate, name, memories) for name in _enclosing(modules, changed, top)):
        return True
    if cut_top and changed != top:
        return False
    inside = {name for name in _CELL.findall(modules[top]) if name in modules}
    cut = sorted(inside) if cut_top else memories
    return _is_proved(gold, gate, top, cut, _around(modules[top], top))


def _enclosing(modules: dict[str, str], name: str, top: str) -> Iterator[str]:
    """A module and those around it below the top, as long as each has one place."""
    while name != top:
        yield name
        around = [each for each, text in modules.items() if name in _CELL.findall(text)]
        if len(around) != 1:
            return
        (name,) = around


def _is_proved(gold: str, gate: str, top: str, cut: Iterable[str], around: str = "") -> bool:
    """Whether modules ``top`` of both texts are proved to do the same, or ``around`` them."""
    root = "around" if around else top
    commands = ["read_verilog around.v"] if around else []
    commands += [f"hierarchy -top {root}"]
    commands += [f"setattr -mod -set keep_hierarchy 1 {name}" for name in cut]
    # Parts that are cut out leave ports, and go before their memories would become registers.
    commands += ["proc", "memory_dff", "flatten", "expose -evert */c:*", f"hierarchy -top {root}"]
    commands += _TO_GATES
    with tempfile.TemporaryDirectory(prefix="tilewright-") as place:
        folder = Path(place)
        (folder / "around.v").write_text(around)
        for side, text in (("gold", gold), ("gate", gate)):
            (folder / f"{side}.il").write_text(text)
            written = f"write_aiger -zinit -symbols {side}.aig"
            run_yosys([f"read_rtlil {side}.il", *commands, written], folder)
        for method in _METHODS:
            answer = run_abc(method, folder, SECONDS).stdout
            if _PROVED.search(answer) or _REFUTED.search(answer):
                return bool(_PROVED.search(answer))
        return False


def _around(text: str, top: str) -> str:
    """Verilog around ``top`` in which a payload that is not offered is 0."""
    ports = _PORT.findall(text)
    names = {name for _, _, name in ports}
    shown, given = [], []
    for width, way, name in ports:
        valid = _PAYLOAD.sub(lambda match: f"{match[1] or match[2]}valid", name)
        inside = name
        if way == "output" and valid != name and valid in names:
            inside = f"{name}.inside"
            shown.append(f"wire [{width}-1:0] \\{inside} ;")
            shown.append(f"assign \\{name} = \\{valid} ? \\{inside} : {width}'b0;")
        given.append(f".\\{name} (\\{inside} )")
    declared = ", ".join(f"{way} [{width}-1:0] \\{name} " for width, way, name in ports)
    instance = f"\\{top} top ({', '.join(given)});"
    return "\n".join([f"module around({declared});", *shown, instance, "endmodule", ""])
