"""What a RISC-V processor needs that is no Python package of the tests."""

from importlib.util import find_spec

import pytest

from tilewright.studies.riscv import firmware
from tilewright.verify.simulators.find import MissingToolError

__all__ = ["cross_compiler_or_skip", "processor_or_skip"]

PROCESSOR = "pythondata_cpu_picorv32"


def cross_compiler_or_skip():
    try:
        return firmware.find_cross_compiler()
    except MissingToolError as error:
        pytest.skip(str(error))


def processor_or_skip():
    cross_compiler_or_skip()
    if find_spec(PROCESSOR) is None:
        pytest.skip("to get the processor: pip install 'tilewright[riscv]'")
