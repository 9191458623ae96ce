"""Compiles ``src`` once per content, compiler and set of flags, into the user's cache folder."""

import os
import platform
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tilewright.base.cache import get_or_make_folder

SOURCES, LIBRARY = Path(__file__).parent / "src", "kernels.so"
# No fused operation that the source does not ask for: every path has the same bits.
COMMON_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-pthread", "-ffp-contract=off")
VECTOR_FLAGS = (
    *("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vbmi", "-mavx512vbmi2"),
    *("-mavx512bf16", "-mavx512vnni", "-mpopcnt", "-mbmi2"),
)
TILE_FLAGS = ("-mamx-tile", "-mamx-bf16", "-mamx-int8")
EXACT_LOOPS = ("-O3", "-ffp-contract=off")  # the same bits on every processor

# Each file has its own instructions; only what `interface.cpp` finds the processor to have is run.
PORTABLE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("portable.cpp", "pool.cpp", "openmp.cpp"), ()),
    **dict.fromkeys(("attention.cpp", "step.cpp", "token.cpp"), ()),
    **dict.fromkeys(("weights.cpp", "codes.cpp", "interface.cpp"), ("-O3",)),
    **dict.fromkeys(("multiply.cpp", "elementwise.cpp"), EXACT_LOOPS),
}
X86 = {
    **PORTABLE,
    "interface.cpp": ("-O3", "-DTILEWRIGHT_X86=1"),
    **dict.fromkeys(("multiply.cpp", "elementwise.cpp"), (*EXACT_LOOPS, "-DTILEWRIGHT_X86=1")),
    **dict.fromkeys(("attention.cpp", "token.cpp"), ("-DTILEWRIGHT_X86=1",)),
    "avx512.cpp": VECTOR_FLAGS,
    "coded.cpp": VECTOR_FLAGS,
    "loops_avx512.cpp": (*EXACT_LOOPS, "-mprefer-vector-width=512", *VECTOR_FLAGS),
    "amx.cpp": (*VECTOR_FLAGS, *TILE_FLAGS),
    "amx_rows.cpp": (*VECTOR_FLAGS, *TILE_FLAGS),
}


class BuildError(RuntimeError):
    """The kernels cannot be compiled here; the text says what to do."""


def compiler() -> str:
    """The C++ compiler: ``$CXX``, or the first of c++, g++ and clang++ there is."""
    chosen = os.environ.get("CXX")
    names = [chosen] if chosen else ["c++", "g++", "clang++"]
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise BuildError(
        f"no C++ compiler found (looked for {', '.join(names)}): install g++ or clang++,"
        " or name one in the environment variable CXX"
    )


def build(*extra_flags: str) -> Path:
    """The compiled library; a compiler that does not know AMX gives one without it."""
    program = compiler()
    if platform.machine() in ("x86_64", "AMD64"):
        try:
            return _cached(program, X86, extra_flags)
        except BuildError:
            pass  # an older compiler: the portable kernels need none of its newer flags
    return _cached(program, PORTABLE, extra_flags)


def _cached(program: str, files: dict[str, tuple[str, ...]], extra: tuple[str, ...]) -> Path:
    """The library of these files, compiled once for each compiler and processor."""
    flags = *COMMON_FLAGS, *extra

    def compiled(scratch: str, file: tuple[str, tuple[str, ...]]) -> str:
        name, own = file
        target = f"{scratch}/{name}.o"
        _run([program, *COMMON_FLAGS, *own, *extra, "-c", str(SOURCES / name), "-o", target])
        return target

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            with ThreadPoolExecutor(os.cpu_count()) as threads:  # each waits for its own compiler
                objects = list(threads.map(partial(compiled, scratch), files.items()))
            linked = ("-ldl", "-o", str(folder / LIBRARY))
            _run([program, "-shared", "-pthread", *extra, *objects, *linked])

    ingredients = [_run([program, "--version"]), platform.machine(), repr(files), repr(flags)]
    ingredients += [path.read_text() for path in sorted(SOURCES.iterdir())]
    return get_or_make_folder("kernels", ingredients, make) / LIBRARY


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line.lower()), "")
        raise BuildError(f"{' '.join(command[:1])} failed with {done.returncode}: {first.strip()}")
    return done.stdout
