"""A block whose bench runs on mutants of it; what passes the bench is handed to the prover."""

import re
from functools import cached_property

from tilewright.base.errors import CheckError
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.synth.emit import to_rtlil, to_verilog
from tilewright.synth.yosys import SynthesisError
from tilewright.verify import bench_of, cocotb_tests
from tilewright.verify.bench import StreamBench
from tilewright.verify.job import Job
from tilewright.verify.simulators import BenchResult, SimulationError, run_bench
from tilewright.verify.simulators.find import BuildError
from tools.mutations.equivalence import is_equivalent
from tools.mutations.operators import Mutation, apply, sample

# The bench fails, does not end, or no simulator accepts the mutant; a proof says that the mutant
# does what the block does; neither of these.
VERDICTS = ("found", "proved", "survived")
FEW, ORDINARY = 30, 1000  # cases: of a first try, and as many as `tilewright simulate` runs
SMALL = 150_000  # bytes of RTLIL up to which Icarus Verilog is done sooner than Verilator
# A simulation may take so many times the seconds of the block without an error; benches of whole
# accelerators have watchdogs of their own.
PATIENCE, PATIENCE_WITH_MACHINES, LEAST_SECONDS = 20, 4, 60.0
# Accelerators on a bus or next to a core: errors of the instance inside belong to its own block.
WRAPPED = {"anda_axi": "machine", "deca_axi": "pe", "deca_tepl": "pe", "harmonia_axi": "machine"}


class Subject:
    """A block, its bench, and the errors that can be planted in it."""

    def __init__(self, block: str):
        self.block, self.params = block, resolve(block)
        self.rtlil = to_rtlil(self.params)
        self.verilog = to_verilog(self.params, self.rtlil)
        self.simulator = "icarus" if len(self.rtlil) <= SMALL else "verilator"
        self.is_machine = _is_machine(block)
        # A machine's bench runs whole programs: few cases take nearly as long as many.
        self.cases = (ORDINARY,) if self.is_machine else (FEW, ORDINARY)

    def drawn(self, places: int) -> list[Mutation]:
        """Draw errors; the block's name is the seed."""
        return sample(self.rtlil, places, self.block, WRAPPED.get(self.params.block, ""))

    def judge(self, mutation: Mutation) -> tuple[str, str]:
        """Return one of ``VERDICTS``, or ``unchanged``, and what the bench printed."""
        text, limit = apply(self.rtlil, mutation), self._limit / self.cases[0]
        try:
            verilog = to_verilog(self.params, text)
            if verilog == self.verilog:  # the error is in logic that nothing uses
                return "unchanged", ""
            for cases in self.cases:
                result = self._run(verilog, cases, limit * cases)
                if not result.passed:
                    return "found", _first_line(result.failure or "")
        except (SynthesisError, BuildError, SimulationError, TimeoutError) as error:
            return "found", _first_line(str(error))
        proved = is_equivalent(self.rtlil, text, mutation.module, cut_top=self.is_machine)
        return "proved" if proved else "survived", ""

    @cached_property
    def _limit(self) -> float:
        """Seconds for the first number of cases, by those of the block without an error."""
        result = self._run(self.verilog, self.cases[0], None)
        if not result.passed:
            raise CheckError(f"{self.block} fails its bench without an error: {result.failure}")
        patience = PATIENCE_WITH_MACHINES if self.is_machine else PATIENCE
        return max(LEAST_SECONDS, patience * result.seconds)

    def _run(self, verilog: str, cases: int, limit: float | None) -> BenchResult:
        return run_bench(
            verilog,
            self.params.slug,
            cocotb_tests(self.params),
            simulator=self.simulator,
            job=Job(self.block, cases).as_dict(),
            environment={"COCOTB_MAX_FAILURES": "1"},
            limit=limit,
        )


def smallest_presets() -> list[str]:
    """Every block in the smallest of its presets, whole accelerators last."""
    blocks = []
    for name, params in BLOCKS.items():
        presets = list(params.PRESETS)
        smallest = next((preset for preset in ("small", "tiny") if preset in presets), presets[0])
        blocks.append(f"{name}:{smallest}")
    return sorted(blocks, key=_is_machine)


def _is_machine(block: str) -> bool:
    return not isinstance(bench_of(resolve(block)), StreamBench)


def _first_line(text: str) -> str:
    """The first line, without paths, which differ from run to run."""
    first = text.strip().partition("\n")[0]
    return re.sub(r"(?:/[\w.-]+){2,}", "...", first)[:160]
