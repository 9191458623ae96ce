"""``python -m tilewright.readme``: the table of blocks in README.md made again."""

import re
from importlib.util import find_spec
from pathlib import Path

from golden.params.resolve import BLOCKS
from hw.catalog import CATALOG
from synth.record import load_records
from tilewright.commands.list import family
from tilewright.files import write_atomic

__all__ = ["README", "block_table", "with_block_table"]

README = Path(__file__).parents[1] / "README.md"


def block_table() -> str:
    """Every block, from what is there."""
    recorded: dict[str, set[str]] = {}
    for record in load_records().values():
        recorded.setdefault(record["block"], set()).add(record["technology"])
    lines = ["| block | what it is | RTL | bench | records |", "|---|---|---|---|---|"]
    for cls in sorted(BLOCKS.values(), key=lambda cls: (family(cls), cls.block)):
        technologies = ", ".join(sorted(recorded.get(cls.block, ()))) or "none"
        bench = "yes" if find_spec(f"tilewright.bench.{cls.block}") else "no"
        component = CATALOG.get(cls.block, ":").partition(":")[0]
        rtl = "yes" if component and find_spec(component) else "no"
        lines.append(f"| `{cls.block}` | {cls.summary} | {rtl} | {bench} | {technologies} |")
    return "\n".join(lines)


def with_block_table(text: str) -> str:
    """``text`` with the present table between its two marks."""
    marks = re.compile(r"(<!-- blocks -->\n).*?(\n<!-- end of blocks -->)", re.DOTALL)
    if not marks.search(text):
        raise ValueError("no place for the table of blocks")
    return marks.sub(lambda found: f"{found[1]}{block_table()}{found[2]}", text)


if __name__ == "__main__":
    write_atomic(README, with_block_table(README.read_text()))
