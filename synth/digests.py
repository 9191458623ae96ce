"""``python -m tilewright.synth.digests`` renews the committed digests of RTLIL.

``tilewright.synth.record.rtlil_sha256`` uses them while the sources are unchanged, so a check for
stale records need not elaborate every block.
"""

from pathlib import Path

from tilewright.base.records import write_record
from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.fpga.record import FPGA
from tilewright.synth.layout.record import LAYOUT
from tilewright.synth.record import (
    DIGESTS,
    ENERGY,
    SYNTHESIS,
    load_kind,
    rtl_sources,
    rtlil_name,
    sha256,
)


def recorded() -> dict[str, tuple[str, bool]]:
    """Recorded blocks, and whether their memories are macros, by the names of their RTLIL."""
    kinds = ((SYNTHESIS, True), (ENERGY, True), (LAYOUT, True), (FPGA, False))
    return {
        rtlil_name(record["spec"], memory_macros=macros): (record["spec"], macros)
        for kind, macros in kinds
        for record in load_kind(kind).values()
    }


def write_digests(path: Path = DIGESTS) -> None:
    """Elaborate every block that has a record, and write all digests."""
    digests = {
        name: sha256(to_rtlil(resolve(spec), memory_macros=macros))
        for name, (spec, macros) in sorted(recorded().items())
    }
    write_record(path, {"sources": rtl_sources(), "digests": digests})


if __name__ == "__main__":
    write_digests()
