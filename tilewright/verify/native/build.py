"""Verilog of an accelerator and the C++ host to one simulation program, from the cache."""

import re
import time
from dataclasses import dataclass
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
    run_program,
)
from tilewright.verify.simulators.run import block_verilog
from tilewright.verify.simulators.verilator import (
    BASE_FLAGS,
    SLOW,
    compile_and_link,
    include_flags,
    left_out,
    with_short_top,
    write_unit,
)

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


def build_native(block: str) -> NativeModel:
    """The accelerator ``block`` with memory and host."""
    params: Any = resolve(block)
    verilator, compiler = require_simulator("verilator"), find_compiler()
    header = machine_header(params, accelerator_of(params).counter)
    verilog, top = with_short_top(_ZEROS.sub("", block_verilog(block)), params.slug)
    verilog, shared = share_modules(verilog, top)
    large = len(verilog) >= LARGE
    models = {"top": (top, verilog, OPTIMIZE if large else "-O0")}
    for module in shared:
        text = module.verilog.replace(_EDGE, _BOTH_EDGES)
        level = OPTIMIZE if len(text) >= LONG else OPTIMIZE_SHARED
        models[module.name] = (module.name, text, level if large else "-O0")
    sources = {source.name: source.read_text() for source in SOURCES} | {"machine.h": header}
    sources |= {f"{module.name}_glue.cpp": module.glue for module in shared}
    flags = [*BASE_FLAGS, *DEFINES, *include_flags(verilator)]

    def make(folder: Path) -> None:
        start, objects = time.perf_counter(), folder / "objects"
        for name, (top, text, level) in models.items():
            (folder / f"{name}.v").write_text(text)
            words = ["--prefix", f"V{name}", "--top-module", top, f"{name}.v"]
            words = [*VERILATOR_FLAGS, *words, *left_out(verilator, text, level)]
            run_program([verilator.path, *words], folder, {"VERILATOR_ROOT": str(verilator.root)})
        for name, text in sources.items():
            (objects / name).write_text(text)
        compile_and_link(objects, (verilator, compiler), flags, _units(objects, models), RUNTIME)
        (folder / "seconds").write_text(f"{time.perf_counter() - start:.1f}")

    ingredients = [
        *(word for model in models.values() for word in model),
        *(word for _, *model in models.values() for word in left_out(verilator, *model)),
        *(*sources.values(), *VERILATOR_FLAGS, *flags),
        *(verilator.fingerprint, file_fingerprint(compiler)),
    ]
    folder = get_or_make_folder("sim", ingredients, make)
    seconds = float((folder / "seconds").read_text())
    return NativeModel(block, folder / "sim", verilator, seconds)


def _units(objects: Path, models: dict[str, tuple[str, str, str]]) -> list[tuple[str, list[str]]]:
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
        together.setdefault((kind, level), []).append(source)
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
    longest_first = sorted(units, key=lambda unit: -unit[0])
    return [
        (write_unit(objects, number, part, _SECOND_MODEL), [level])
        for number, (_, part, level) in enumerate(longest_first)
    ]
