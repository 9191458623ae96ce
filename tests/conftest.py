"""For every test: the installed package; how workers of pytest-xdist run."""

import os
from contextlib import ExitStack
from importlib.util import find_spec

import pytest
from hypothesis import settings

from tilewright.synth.collector import rare_collections

pytest_plugins = ["tests.support.installed"]

# `nox -s torch` installs what these need.
NEED_TORCH = [
    *("torch/*", "kernels/test_torch.py", "kernels/test_models.py", "kernels/test_caches.py"),
    "studies/test_accuracy_torch.py",
]
collect_ignore_glob = [] if find_spec("torch") else NEED_TORCH

# No test measures time: a busy machine may take as long as it needs for an example.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the installed package come first: it is built once.

    `--dist worksteal` gives each worker a stretch of the list and moves only ends of stretches.
    """
    items.sort(key=lambda item: "checkout" not in getattr(item, "fixturenames", ()))


@pytest.fixture(autouse=True)
def same_cache():
    """A test that leaves another cache has every later one of its worker build all again."""
    before = os.environ.get("XDG_CACHE_HOME")
    yield
    assert os.environ.get("XDG_CACHE_HOME") == before
