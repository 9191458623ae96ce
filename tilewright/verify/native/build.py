"""Verilog of an accelerator and the C++ host to one simulation program, from the cache."""

import os
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.base.cache import get_or_make_folder
from tilewright.golden.params.resolve import resolve
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.native.header import machine_header
from tilewright.verify.native.share import share_modules
from tilewright.verify.simulators.find import (
    Simulator,
    file_fingerprint,
    find_compiler,
    require_simulator,
)
from tilewright.verify.simulators.programs import run_program
from tilewright.verify.simulators.verilator import (
    BASE_FLAGS,
    SLOW,
    left_out,
    runtime_object,
    with_short_top,
)
from tilewright.verify.simulators.verilog import block_verilog

SOURCES = sorted((Path(__file__).parent / "src").iterdir())
RUNTIME = ("verilated", "verilated_threads")
# Nothing is undefined in Verilog that Amaranth writes, so don't-care values may be whatever is
# quickest.
VERILATOR_FLAGS = (
    *("--cc", "--no-timing", "-Mdir", "objects"),
    *("-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert"),
    *("--output-split", "20000", "--output-split-cfuncs", "5000"),
    *("-Wno-lint", "-Wno-UNOPTFLAT"),  # the lint session has its own run, with -Wall
)
DEFINES = ("-DVM_TRACE=0", "-DVM_COVERAGE=0", "-DVM_SC=0")
# Most shared modules are little code that runs often; what is long takes GCC minutes with -O2.
# Smaller designs are built soonest without.
OPTIMIZE, OPTIMIZE_SHARED = "-O1", "-O2"
LARGE = 700_000  # characters of Verilog of the top, stubs and all else
LONG = 200_000  # of a shared module
UNIT_BYTES = 1_500_000  # of C++ that are compiled as one file
# Verilator since 5.018 refuses headers of two models in one file, which would not be precompiled
# for both; nothing is here.
_SECOND_MODEL = "#undef VL_PCH_INCLUDED\n"
# Memories begin with zeros anyhow; Verilator would unroll these lines for every copy.
_ZEROS = re.compile(r"^ *\w+\[\d+\] = \d+'[dh]0+;\n", re.MULTILINE)
_EDGE = "always @(posedge clk)"
_BOTH_EDGES = "always @(posedge clk, negedge clk)"


@dataclass(frozen=True)
class NativeModel:
    """A simulation program; ``seconds`` is how long its build took, when it was built."""

    block: str  # as ``tilewright.golden.params.resolve`` reads it
    program: Path
    simulator: Simulator
    seconds: float


def build_native(block: str, *, threads: int = 1) -> NativeModel:
    """The accelerator ``block`` with memory and host; ``threads`` are the model's own."""
    params: Any = resolve(block)
    verilator, compiler = require_simulator("verilator"), find_compiler()
    header = machine_header(params, accelerator_of(params).counter)
    verilog, top = with_short_top(_ZEROS.sub("", block_verilog(block)), params.slug)
    verilog, shared = share_modules(verilog, top)
    texts = [header, *(source.read_text() for source in SOURCES)]
    large = len(verilog) >= LARGE
    models = {"top": (top, verilog, OPTIMIZE if large else "-O0")}
    for module in shared:
        text = module.verilog.replace(_EDGE, _BOTH_EDGES)
        level = OPTIMIZE if len(text) >= LONG else OPTIMIZE_SHARED
        models[module.name] = (module.name, text, level if large else "-O0")
    glue = {module.name: module.glue for module in shared}
    threading = ("--threads", str(threads), "--threads-dpi", "all") if threads > 1 else ()
    ingredients = [
        *(word for model in models.values() for word in model),
        *(*texts, *glue.values(), *VERILATOR_FLAGS, *threading, *BASE_FLAGS, *DEFINES),
        *(word for _, *model in models.values() for word in left_out(verilator, *model)),
        *(verilator.fingerprint, file_fingerprint(compiler)),
    ]
    tools = (verilator, compiler)
    make = partial(_make, tools=tools, models=models, header=header, glue=glue, threading=threading)
    folder = get_or_make_folder("sim", ingredients, make)
    seconds = float((folder / "seconds").read_text())
    return NativeModel(block, folder / "sim", verilator, seconds)


def _make(
    folder: Path,
    *,
    tools: tuple[Simulator, Path],
    models: dict[str, tuple[str, str, str]],
    header: str,
    glue: dict[str, str],
    threading: tuple[str, ...],
) -> None:
    start = time.perf_counter()
    (verilator, compiler), objects = tools, folder / "objects"
    for name, (top, text, level) in models.items():
        (folder / f"{name}.v").write_text(text)
        words = ["--prefix", f"V{name}", "--top-module", top, f"{name}.v"]
        if name == "top":
            words += threading
        words += left_out(verilator, text, level)
        environment = {"VERILATOR_ROOT": str(verilator.root)}
        run_program([verilator.path, *VERILATOR_FLAGS, *words], folder, environment)
    for source in SOURCES:
        shutil.copy(source, objects)
    (objects / "machine.h").write_text(header)
    for name, text in glue.items():
        (objects / f"{name}_glue.cpp").write_text(text)
    include = [f"-I{verilator.root}/include", f"-I{verilator.root}/include/vltstd", "-I."]
    flags = [*BASE_FLAGS, *DEFINES, *include]
    units = _units(objects, models)
    commands: list[list[str | Path]] = [
        [compiler, *flags, level, "-c", f"{name}.cpp", "-o", f"{name}.o"] for name, level in units
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runtime = [pool.submit(runtime_object, verilator, compiler, name) for name in RUNTIME]
        compiled = [pool.submit(run_program, command, objects) for command in commands]
        made = [future.result() for future in runtime]
        for future in compiled:
            future.result()
    link: list[str | Path] = [
        compiler,
        "-o",
        "../sim",
        *(f"{name}.o" for name, _ in units),
        *made,
        "-pthread",
    ]
    run_program(link, objects)
    shutil.rmtree(objects)
    (folder / "seconds").write_text(f"{time.perf_counter() - start:.1f}")


def _units(objects: Path, models: dict[str, tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Files to compile, the longest first: names, and how far each is optimised.

    Sources that are compiled alike are one unit, up to a size: each would read all headers again.
    """
    together: dict[tuple[str, str], list[Path]] = {}
    for source in sorted(objects.glob("*.cpp")):
        model = re.match("V?(top|shared[0-9]+)", source.name)
        level = models[model[1]][2] if model else OPTIMIZE_SHARED
        if SLOW in source.name or models["top"][2] == "-O0":
            level = "-O0"
        kind = model[1] if model and level != "-O0" else "the rest"
        sources = together.setdefault((kind, level), [])
        sources.append(source)
    units = []
    for (_, level), sources in together.items():
        size, part = 0, list[Path]()
        for source in sources:
            if part and size + source.stat().st_size > UNIT_BYTES:
                units.append((size, part, level))
                size, part = 0, []
            size += source.stat().st_size
            part.append(source)
        units.append((size, part, level))
    named = []
    for number, (_, part, level) in enumerate(sorted(units, key=lambda unit: -unit[0])):
        text = "".join(f'{_SECOND_MODEL}#include "{source.name}"\n' for source in part)
        (objects / f"unit{number}.cpp").write_text(text)
        named.append((f"unit{number}", level))
    return named
