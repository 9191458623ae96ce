"""Blocks written to folders in the forms of flows that place and route them."""

from pathlib import Path

from tilewright.base.files import write_atomic
from tilewright.synth.handover.flows import flow_files

__all__ = ["export_block"]


def export_block(
    block: str,
    flow: str,
    folder: Path,
    *,
    technology: str | None = None,
    period: float | None = None,
) -> list[Path]:
    """Write what hands ``block`` over to ``flow`` into ``folder``, and return the files' paths.

    Each file is written whole or not at all. ``technology`` is by default the flow's first,
    ``period`` (ps) a quarter more than the delay of the block's committed synthesis record.
    """
    files = flow_files(block, flow, technology=technology, period=period)
    for name, content in files.items():
        write_atomic(folder / name, content)
    return [folder / name for name in files]
