"""``python -m tilewright.synth.emitted SPEC FOLDER``: Verilog of a block, and what it came from.

Whoever keeps Verilog lets a process of its own write it, which reads the sources as they are. The
process imports no more than that takes: many blocks are written in less time than NumPy needs.
"""

import sys
from pathlib import Path

from tilewright.base.cache import content_key, sources_of
from tilewright.golden.params.resolve import registered_modules, resolve

# Modules that decide the Verilog of a block.
SOURCES = (
    "tilewright.golden.params",
    "tilewright.hw",
    "tilewright.synth.emit",
    "tilewright.synth.signal_names",
    "tilewright.synth.yosys",
)
KEY_FILE = "sources.key"


def verilog_sources() -> list[str]:
    """The texts of all sources that decide what is written."""
    return sources_of(*SOURCES, *registered_modules())


def main(spec: str, folder: str) -> None:
    """Write the Verilog of ``spec`` to ``folder``, and the key of the sources it came from."""
    from tilewright.synth.emit import to_verilog

    params = resolve(spec)
    key = content_key(verilog_sources())
    Path(folder, f"{params.slug}.v").write_text(to_verilog(params))
    if content_key(verilog_sources()) == key:
        Path(folder, KEY_FILE).write_text(key)
    else:
        Path(folder, KEY_FILE).write_text("a source changed meanwhile")


if __name__ == "__main__":
    main(*sys.argv[1:])
