"""``python -m tilewright.synth.digests`` renews the committed digests of RTLIL.

``tilewright.synth.record.rtlil_sha256`` takes them where they are of the present sources, so that
who asks whether records are old need not elaborate every block.
"""

from collections.abc import Iterator
from pathlib import Path

from tilewright.base.records import write_record
from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.fpga.record import load_fpga_records
from tilewright.synth.place.record import load_placed_records
from tilewright.synth.record import (
    DIGESTS,
    SYNTHESIS,
    load_kind,
    rtl_sources,
    rtlil_name,
    sha256,
)

__all__ = ["recorded", "write_digests"]


def recorded() -> dict[str, tuple[str, bool]]:
    """Blocks that have a record, with memories as macros or not, by the names of their RTLIL."""
    return {
        rtlil_name(spec, memory_macros=macros): (spec, macros) for spec, macros in _of_records()
    }


def _of_records() -> Iterator[tuple[str, bool]]:
    for record in (*load_kind(SYNTHESIS).values(), *load_placed_records().values()):
        yield record["spec"], True
    for record in load_fpga_records().values():
        yield record["spec"], False


def write_digests(path: Path = DIGESTS) -> None:
    """Elaborate every block that has a record, and write the digests of all."""
    digests = {
        name: sha256(to_rtlil(resolve(spec), memory_macros=macros))
        for name, (spec, macros) in sorted(recorded().items())
    }
    write_record(path, {"sources": rtl_sources(), "digests": digests})


if __name__ == "__main__":
    write_digests()
