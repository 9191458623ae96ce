"""What was run, and which parsers had damaged inputs."""

from tilewright.report.html import Markup, code, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.report.reference.evidence import (
    Table,
    lines_that_ran,
    long_tests,
    tried_inputs,
)

TITLE = "Evidence"
POSITION = 65


def build(context: Context) -> Page:
    tests, inputs, lines = long_tests(), tried_inputs(), lines_that_ran()
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
                    " not seen. A line that ran is not a line that was checked."
                ),
                _shown(lines),
                note("Source:", code("nox -s lines")),
            ),
        ]
    )
    return Page(
        summary=f"Outcomes of long tests in {len(tests[1])} files, and damaged inputs of"
        f" {len(inputs[1])} parsers.",
        body=body,
        data={
            name: [dict(zip(header, row, strict=True)) for row in rows]
            for name, (header, rows) in (
                *(("long_tests", tests), ("damaged_inputs", inputs), ("lines", lines)),
            )
        },
    )


def _shown(found: Table) -> Markup:
    header, rows = found
    return table(header, rows) if rows else paragraph("None is recorded.")
