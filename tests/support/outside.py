"""The example block of docs/examples/pe_int_int, which no catalogue has."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from pytest import MonkeyPatch

from tilewright.golden.params.resolve import BLOCKS, MODULES_VARIABLE
from tilewright.hw.catalog import CATALOG
from tilewright.verify.benches import BENCHES

NAME = "pe_int_int"
FOLDER = Path(__file__).parents[2] / "docs" / "examples" / NAME


@contextmanager
def outside_block() -> Iterator[ModuleType]:
    """Register the example in this process, and forget it afterwards."""
    with MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        patch.setenv(MODULES_VARIABLE, "")
        try:
            yield import_module(NAME)
        finally:
            del sys.modules[NAME]
            for table in (BLOCKS, CATALOG, BENCHES):
                del table[NAME]


def outside_environment() -> dict[str, str]:
    """Return an environment in which every command knows the example."""
    root = str(Path(__file__).parents[2])
    return os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{FOLDER}", MODULES_VARIABLE: NAME}
