"""The machine that the kernels run on, in words and numbers."""

import os
import platform
import re
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from tilewright.kernels.build import compiler
from tilewright.kernels.library import available_paths, processors


def describe_machine() -> dict[str, Any]:
    """This machine and its programs, as reported by the system.

    The compiler is called, and the kernels are compiled if need be.
    """
    info = _cpu_info()
    numbers = (info.get(key, "") for key in ("cpu family", "model", "stepping"))
    command = [compiler(), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {
        "processor": info.get("model name", platform.processor() or platform.machine()),
        # Empty on other processors than x86.
        "family_model_stepping": tuple(int(number) for number in numbers if number.isdecimal()),
        "processors": processors(),
        "caches": tuple(_caches()),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "huge_pages": _huge_pages(),
        "system": platform.system(),
        "compiler": said.splitlines()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": version("torch") if find_spec("torch") else None,
        "paths": tuple(path.name.lower() for path in available_paths()),  # of the kernels
    }


def _cpu_info() -> dict[str, str]:
    try:
        text = FilePath("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError:
        return {}
    return dict(re.findall(r"^(.+?)\s*: (.+)$", text, re.MULTILINE))


def _caches() -> list[str]:
    found = []
    for cache in sorted(FilePath("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = (
                (cache / name).read_text().strip() for name in ("level", "type", "size")
            )
            found.append(f"L{level} {kind.lower()} {size}")
        except OSError:
            pass  # some systems do not report these
    return found


def _huge_pages() -> str:
    try:
        text = FilePath("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return "unknown"
    chosen = re.search(r"\[(\w+)\]", text)
    return chosen.group(1) if chosen else "unknown"
