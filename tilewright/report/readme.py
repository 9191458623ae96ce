"""``python -m tilewright.report.readme``: the tables of designs and of blocks in README.md."""

from importlib.util import find_spec
from pathlib import Path

from tilewright.base.files import write_atomic
from tilewright.golden.params.describe import family
from tilewright.golden.params.resolve import BLOCKS
from tilewright.hw.catalog import CATALOG
from tilewright.sim.classes import summary
from tilewright.sim.scoreboard import evaluate
from tilewright.synth.record import load_records
from tilewright.synth.system import load_system
from tilewright.synth.technology import TECHNOLOGIES
from tilewright.verify.benches import BENCHES

__all__ = ["README", "block_table", "design_table", "with_tables"]

README = Path(__file__).parents[2] / "README.md"
# Name in the claims' files -> the paper and what is here of it.
DESIGNS = {
    "deca": (
        "DECA (Gerogiannis et al., MICRO 2025)",
        "[near-core decompressor](docs/deca.md) of quantised and sparse weight tiles: loaders, "
        "tables, crossbar, scaler, queues, TEPL, AXI; the Roof-Surface model",
    ),
    "anda": (
        "Anda (Fang et al., HPCA 2025)",
        "[bit-plane compressor, bit-serial units](docs/anda.md), the PEs of the baselines, and the "
        "[whole accelerator](docs/anda-system.md) with programs",
    ),
    "harmonia": (
        "Harmonia (Wang et al.)",
        "[reconfigurable PE, systolic array, online converter](docs/harmonia.md), mixed "
        "KV cache, attention in block floating point, and the "
        "[whole accelerator](docs/harmonia-system.md) with programs",
    ),
    "sparamx": (
        "SparAMX (AbouElhamayed et al.)",
        "[unstructured-sparse kernels](docs/sparamx.md) for AMX, AVX-512 and any other CPU, "
        "PyTorch layers, instruction models that silicon confirms",
    ),
}


def design_table() -> str:
    """List every design, and how many of its paper's figures ours meet within tolerance."""
    lines = [
        "| paper | what is here | predictions and measurements within tolerance | other claims that"
        " agree |",
        "|---|---|---|---|",
    ]
    counts = summary(evaluate(DESIGNS))
    for paper, (name, text) in DESIGNS.items():
        count = counts[paper]
        lines.append(
            f"| {name} | {text} | {count.within} of {count.evaluated} |"
            f" {count.others_within} of {count.others} |"
        )
    return "\n".join(lines)


def block_table() -> str:
    """List every block: whether it has RTL and a bench, and the technologies of its records."""
    recorded: dict[str, set[str]] = {}
    for record in load_records().values():
        recorded.setdefault(record["block"], set()).add(record["technology"])
    lines = ["| block | what it is | RTL | bench | records |", "|---|---|---|---|---|"]
    for cls in sorted(BLOCKS.values(), key=lambda cls: (family(cls), cls.block)):
        technologies = ", ".join(sorted(recorded.get(cls.block, ())))
        if not technologies and (parts := _mapped_by_part(cls.block)):
            technologies = f"{', '.join(parts)}: area by part"
        bench = "yes" if cls.block in BENCHES else "no"
        component = CATALOG.get(cls.block, ":").partition(":")[0]
        rtl = "yes" if component and find_spec(component) else "no"
        lines.append(
            f"| `{cls.block}` | {cls.summary} | {rtl} | {bench} | {technologies or 'none'} |"
        )
    return "\n".join(lines)


def _mapped_by_part(block: str) -> list[str]:
    """List the technologies in which ``tilewright synth --system`` has a record of the block."""
    return [name for name in TECHNOLOGIES if load_system(block, name) is not None]


def with_tables(text: str) -> str:
    """Return ``text`` with the tables of today between their marks."""
    for name, table in (("designs", design_table), ("blocks", block_table)):
        start, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        if start not in text or end not in text:
            raise ValueError(f"no place for the table of {name}")
        before, _, rest = text.partition(start)
        text = before + start + table() + end + rest.partition(end)[2]
    return text


if __name__ == "__main__":
    write_atomic(README, with_tables(README.read_text()))
