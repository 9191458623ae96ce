"""The tools that the report was built with."""

import platform

from tilewright import __version__
from tilewright.report.html import code, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.verify.tools import find_tools

TITLE = "Tools"
POSITION = 90


def build(context: Context) -> Page:
    tools = [
        {"tool": t.name, "version": t.version, "needed_for": t.needed_for} for t in find_tools()
    ]
    data = {"tilewright": __version__, "machine": platform.machine(), "tools": tools}
    body = join(
        [
            section(
                "Tools on the machine that built these pages",
                table(
                    ("Tool", "Version", "Needed for"),
                    [(code(t["tool"]), t["version"], t["needed_for"]) for t in tools],
                ),
                note(
                    "Source:",
                    code("tilewright doctor"),
                    f"while this page was built, on {data['machine']}.",
                ),
            ),
            paragraph(
                "A dash means that the tool is missing. The report itself needs only the Python"
                " packages; the simulators serve the benches and the tests."
            ),
        ]
    )
    return Page(
        summary="The versions of all tools on the machine that built this report.",
        body=body,
        data=data,
    )
