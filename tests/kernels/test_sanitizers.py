"""The pools under AddressSanitizer and ThreadSanitizer, where the compiler has them."""

import subprocess
from pathlib import Path

import pytest

from tilewright.kernels.build import COMMON_FLAGS, PORTABLE, SOURCES, compiler

DRIVER = Path(__file__).parents[1] / "support" / "pool_check.cpp"
# The runtime's own locks are not seen: what it calls of others is no race of ours.
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0", "LC_ALL": "C"}
SUPPRESSIONS = "called_from_lib:libgomp\ncalled_from_lib:libomp\n"
# Something that needs the runtime, so that the linker keeps it.
NEEDS_OPENMP = (
    'extern "C" int omp_get_num_threads(); int team() { return omp_get_num_threads(); }\n'
)


def compile_with(flags, *arguments):
    command = [compiler(), *COMMON_FLAGS, "-g", *flags, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def skip_without(flags, folder):
    """Skip where the compiler cannot link with these flags."""
    source = folder / "empty.cpp"
    source.write_text("int main() {}\n")
    if compile_with(flags, source, "-o", folder / "empty").returncode:
        pytest.skip(f"the compiler has no {' '.join(flags)}")


@pytest.fixture(
    scope="module", params=[pytest.param("address,undefined", marks=pytest.mark.full), "thread"]
)
def driver(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.partition(",")[0])
    flags = [
        f"-fsanitize={request.param}",
        "-O1",
        "-fno-sanitize-recover=all",
        "-fno-sanitize=vptr",
    ]
    skip_without(flags, folder)
    sources = [SOURCES / name for name in PORTABLE]
    target = folder / "pool_check"
    done = compile_with(flags, DRIVER, *sources, "-ldl", "-o", target)
    assert done.returncode == 0, done.stderr
    (folder / "suppressions").write_text(SUPPRESSIONS)
    return target


def run(driver, *arguments):
    options = f"suppressions={driver.parent / 'suppressions'} halt_on_error=1"
    done = subprocess.run(
        [driver, *arguments],
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, "TSAN_OPTIONS": options},
        check=False,
        timeout=300,
    )
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer does not know this system's memory layout")
    return done


def test_own_pool(driver):
    done = run(driver)
    assert (done.returncode, done.stdout) == (0, "own\n"), done.stderr


def test_pool_of_an_openmp_runtime(driver):
    """A library by PyTorch's name stands in for it: all that counts is what it depends on."""
    folder = driver.parent
    skip_without(["-fopenmp"], folder)
    (folder / "torch.cpp").write_text(NEEDS_OPENMP)
    library = folder / "libtorch_cpu.so"
    done = compile_with(["-fopenmp"], "-shared", folder / "torch.cpp", "-o", library)
    assert done.returncode == 0, done.stderr
    done = run(driver, str(library))
    assert (done.returncode, done.stdout) == (0, "openmp\n"), done.stderr
