"""The compiled kernels against golden, on every path that this machine has."""

import os
import platform
import subprocess
import sys
from pathlib import Path as FilePath

import pytest

from tests.support import kernel_paths
from tests.support.silicon import FLAGS, why_not
from tilewright.kernels import Path, available_paths

ROOT = FilePath(__file__).parents[2]


def test_formats_and_shapes():
    shapes = [(1, 1), (1, 70), (19, 1), (17, 65), *kernel_paths.LONG]
    kernel_paths.compare_formats(available_paths(), shapes, batches=(1, 17))


def test_overflow_underflow_and_cancellation():
    kernel_paths.compare_wide_range(available_paths())


def test_coded_weights():
    kernel_paths.compare_coded(available_paths(), ("bf8", "mxfp4"), ((17, 70), (1, 2100)), 2000)


def test_weights_quantised_elsewhere():
    kernel_paths.compare_quantised(available_paths(), ((17, 70), (1, 2100)))


def test_attention_with_a_growing_tail():
    kernel_paths.compare_attention(available_paths(), ((2, 3, 40, 40, 33),))


def test_sums_and_products_near_the_smallest_normal():
    kernel_paths.compare_window(available_paths())
    kernel_paths.compare_scales(available_paths())
    kernel_paths.compare_nan_scale(available_paths())


def run_apart(**environment):
    """All comparisons in a fresh process; the paths it compared."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.kernel_paths"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.full
def test_every_path_in_a_process_of_its_own():
    found = run_apart()
    assert found[0] == Path.PORTABLE.name
    if why_not() is None:
        assert found[-1] == Path.AMX.name


@pytest.mark.full
def test_under_the_address_sanitizer():
    """Every comparison again with each access to memory checked, beside and behind every array."""
    if platform.system() != "Linux":
        pytest.skip("needs the sanitizer's library to be preloaded, as Linux can")
    runtime = subprocess.run(
        [os.environ.get("CXX", "c++"), "-print-file-name=libasan.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    if not FilePath(runtime).is_absolute():
        pytest.skip("this compiler has no address sanitizer")
    found = run_apart(
        TILEWRIGHT_KERNEL_FLAGS="-fsanitize=address -g -O1",
        LD_PRELOAD=runtime,
        ASAN_OPTIONS="detect_leaks=0",
        PYTHONMALLOC="malloc",  # so that arrays of Python's own allocator are watched too
    )
    assert found[0] == Path.PORTABLE.name


def test_paths_are_those_of_the_processor():
    """No path is offered that the processor's own list of features does not allow."""
    assert available_paths()[0] is Path.PORTABLE
    try:
        features = set(FilePath("/proc/cpuinfo").read_text().split())
    except OSError:
        features = set()
    wanted = {"avx512_bf16", "avx512_vbmi2", "avx512_vnni"}
    assert (Path.AVX512 in available_paths()) == (wanted <= features)
    assert Path.AMX not in available_paths() or features >= FLAGS
