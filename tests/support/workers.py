"""Which tests go to one worker of pytest-xdist (``--dist loadgroup``), and how a worker runs.

Workers share nothing: what a file makes once for several tests is made once in each worker that
has one of them, or one worker waits while another makes it. So the tests of a file with such a
fixture stay together, and so do those of one preset where they share what is elaborated. Marks of
groups would do the same, but pytest-xdist 3.8 writes them into a field that pytest 9.2 does not
read: there, marked tests are spread as if they had no mark.
"""

import os
import re
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tilewright.synth.collector import rare_collections

_SHARED = re.compile(r"^@pytest\.fixture\(\s*scope=\"(module|session)\"", re.MULTILINE)
# Files in which tests with the same first parameter share what they simulate.
BY_PARAMETER = {"tests/hw/test_blocks.py", "tests/sim/test_programs.py"}

# Files of one worker: what they share takes minutes to make, or is a build of a machine for
# which one worker would wait while the other makes it.
TOGETHER = {
    "tests/report/test_results_page.py": "installed package",
    "tests/report/test_written.py": "installed package",
    "tests/claims/test_scoreboard.py": "installed package",  # both evaluate all claims
    "tests/test_wheel.py": "installed package",
    **{
        f"tests/verify/test_{name}.py": f"tests/verify/test_{name}.py"
        for name in ("anda", "deca", "decoder_layer", "harmonia", "native")
    },
}

# Short tests only. A worker holds the next test while one runs: with long ones at the end, it would
# hold one that another worker, already idle, could run.
SHORT = ("tests/base/", "tests/golden/", "tests/params/")


def pytest_configure(config: pytest.Config) -> None:
    """There is a worker for each core: threads of a matrix product would only wait for another's.

    Before anything imports numpy, and also for the programs that tests start. Thousands of tests
    live from their collection to the end: looking for garbage among them took a sixth of the time
    of those that simulate RTL in Python.
    """
    seldom = ExitStack()
    seldom.enter_context(rare_collections())
    config.add_cleanup(seldom.close)
    if hasattr(config, "workerinput"):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.hookimpl(trylast=True)  # after tests were chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # a worker's; each of them has the same order
        items.sort(key=lambda item: item.nodeid.startswith(SHORT))


@pytest.hookimpl(optionalhook=True)  # known where pytest-xdist is there
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid, config.rootpath)

    return Together(config, log)


def group_of(nodeid: str, root: Path) -> str:
    """The name of what stays together with a test: the test itself where nothing does."""
    file, _, test = nodeid.partition("::")
    if file in BY_PARAMETER:
        first = re.split(r"[-\]]", test.partition("[")[2])[0]
        return f"{file}[{first}]"
    if file in TOGETHER:
        return TOGETHER[file]
    return file if _has_shared_fixture(root / file) else nodeid


@cache
def _has_shared_fixture(path: Path) -> bool:
    return _SHARED.search(path.read_text(encoding="utf-8")) is not None
