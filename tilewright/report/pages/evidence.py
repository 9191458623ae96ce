"""What was run, what planted errors were found, and which parsers had damaged inputs."""

from tilewright.report.html import Markup, code, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.report.reference.evidence import (
    Table,
    lines_that_ran,
    long_tests,
    planted_errors,
    survivors,
    tried_inputs,
)

TITLE = "Evidence"
POSITION = 65


def build(context: Context) -> Page:
    tests, errors, alive, inputs = long_tests(), planted_errors(), survivors(), tried_inputs()
    total, lines = errors[1][-1], lines_that_ran()
    body = join(
        [
            section(
                "Long tests",
                paragraph(
                    "The last outcome of every test that the ordinary suite leaves out and that"
                    " was run. Code that changed since is code that its file imports, directly or"
                    " not; a file that is not listed has no recorded outcome."
                ),
                _shown(tests),
                note("Source:", code("tilewright evidence"), "in a checkout of the project."),
            ),
            section(
                "Planted errors in the RTL",
                paragraph(
                    "Operands swapped, operators replaced, constants off by one, conditions"
                    " inverted, enables dropped, bits stuck, reset values wrong: drawn from the"
                    " RTLIL of each block and judged by its ordinary bench. Equivalent ones are"
                    " proved by ABC to make no difference. Open ones passed a first run of the"
                    " bench, and neither a longer one nor a proof has been tried: they count"
                    " neither way."
                ),
                _shown(errors),
                _shown(alive),
                note("Source:", code("python -m tilewright.cli.mutation_campaign --show")),
            ),
            section(
                "Damaged inputs",
                paragraph(
                    "Valid inputs of every parser with a few edits. An input passes where it is"
                    " read, or refused in one line."
                ),
                _shown(inputs),
                note("Source:", code("python -m tests.support.fuzz_campaign")),
            ),
            section(
                "Lines that tests run",
                paragraph(
                    "Lines of functions that the ordinary tests reach, counted in the tests' own"
                    " processes: benches inside simulators, and commands started as programs, are"
                    " not seen. A line that ran is not a line that was checked; planted errors"
                    " say what is."
                ),
                _shown(lines),
                note("Source:", code("nox -s lines")),
            ),
        ]
    )
    return Page(
        summary=f"{total[2]} of {total[1]} errors planted in the RTL are found by benches,"
        f" {total[3]} are proved to make no difference, {total[5]} are open.",
        body=body,
        data={
            name: [dict(zip(header, row, strict=True)) for row in rows]
            for name, (header, rows) in (
                *(("long_tests", tests), ("planted_errors", errors)),
                *(("survivors", alive), ("damaged_inputs", inputs), ("lines", lines)),
            )
        },
    )


def _shown(found: Table) -> Markup:
    header, rows = found
    return table(header, rows) if rows else paragraph("None is recorded.")
