"""The clock that a whole accelerator holds, from its record."""

from tilewright.report.html import Markup, code, join, note, paragraph, section, table
from tilewright.synth.system_clock import load_clock

__all__ = ["clock_section"]


def clock_section(spec: str, command_clock: str) -> Markup:
    """Show the longest path into each part; nothing where there is no record."""
    record = load_clock(spec, "asap7")
    if record is None:
        return Markup("")
    verb = "holds" if record["period_ps"] <= record["wanted_ps"] else "misses"
    command = f"tilewright synth {spec} --system --clock {command_clock} --tech asap7"
    rows = [[part or "the top", round(ps)] for part, ps in record["parts_ps"].items()]
    return section(
        "Clock of the accelerator",
        paragraph(
            f"Its netlist of {record['cells']:,} cells in asap7, mapped module by module for the"
            f" goal {record['goal']}, {verb} {1e6 / record['wanted_ps']:.0f} MHz:"
            f" {record['period_ps']:.0f} ps, {1e6 / record['period_ps']:.0f} MHz before placement,"
            f" from {record['longest_path']['start']} to {record['longest_path']['end']}. Its logic"
            f" takes {record['logic_um2'] / 1e6:.3f} mm², more than for the least area above."
        ),
        table(["Paths that end in", "Longest, ps"], rows),
        join(
            [
                note(
                    "Measured on a netlist, without wires. Source:",
                    code("synth/records/system_clock.asap7.json"),
                    "made by",
                    code(f"{command} --update-records"),
                )
            ]
        ),
    )
