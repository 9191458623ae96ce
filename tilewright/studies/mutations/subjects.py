"""How the bench of each block is run on mutants: preset, simulator, cases and patience."""

from tilewright.base.errors import CheckError
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.studies.mutations.judging import Subject
from tilewright.synth.emit import to_rtlil, verilog_from_rtlil
from tilewright.verify import bench_of, cocotb_tests
from tilewright.verify.bench import StreamBench
from tilewright.verify.job import DEFAULT_STALLS, Job
from tilewright.verify.simulators import run_bench

__all__ = ["default_blocks", "is_machine", "prepare"]

FEW, ORDINARY = 30, 1000  # cases: of the first try, and as many as `tilewright simulate` runs
# Bytes of RTLIL up to which Icarus Verilog, which builds in no time, is done sooner.
SMALL = 150_000
# Of machines, whose benches draw whole programs or tiles: in one go, for most of a run does not
# depend on their number.
OF_MACHINES = (ORDINARY,)
# Times the seconds of the simulation without an error; of machines, whose benches have watchdogs.
PATIENCE, PATIENCE_WITH_MACHINES = 20, 4


def default_blocks() -> list[str]:
    """Every block in the smallest of its presets, small ones first, whole accelerators last."""
    named = []
    for name, cls in BLOCKS.items():
        presets = list(cls.PRESETS)
        small = [preset for preset in ("small", "tiny") if preset in presets]
        named.append(f"{name}:{(small or presets)[0]}")
    units = {block: len(to_rtlil(resolve(block))) for block in named if not is_machine(block)}
    return [*sorted(units, key=lambda block: units[block]), *filter(is_machine, named)]


def is_machine(block: str) -> bool:
    """Whether its bench is more than streams: a whole accelerator."""
    return not isinstance(bench_of(resolve(block)), StreamBench)


def prepare(block: str, rtlil: str) -> Subject:
    """Measure the block without an error, on the simulator that is likely to be done sooner."""
    params, verilog = resolve(block), verilog_from_rtlil(rtlil)
    large = is_machine(block)
    cases = OF_MACHINES if large else (FEW, ORDINARY)
    simulator = "icarus" if len(rtlil) <= SMALL else "verilator"
    job = Job(block, cases[0], stalls=DEFAULT_STALLS).as_dict()
    result = run_bench(verilog, params.slug, cocotb_tests(params), simulator=simulator, job=job)
    if not result.passed:
        raise CheckError(f"{block} fails its bench without an error: {result.failure}")
    limit = max(60.0, (PATIENCE_WITH_MACHINES if large else PATIENCE) * result.seconds)
    return Subject(block, rtlil, verilog, simulator, cases, limit, DEFAULT_STALLS, not large)
