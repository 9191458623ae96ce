"""One variant of a sweep: synthesised and simulated in a process of its own.

A variant that crashes takes nothing else with it, and the same call serves a local thread and a
worker of a cluster. Results travel as plain JSON data and are cached by the sources they came from
(:mod:`tilewright.base.cache`); where sources changed, what Yosys gave is still found by its own
content.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.studies.sweeps.results import LongestPath, Metric, Result, Simulation

if TYPE_CHECKING:
    from tilewright.golden.params.block import BlockParams
    from tilewright.synth.technology import Technology

__all__ = ["Job", "VariantError", "quick_key", "result_text", "run_apart", "sources_key"]

ROOT = Path(__file__).parents[2]
# What the result of a variant can depend on.
SOURCES = ("golden", "hw", "synth", "verify", "studies/pe", "studies/sweeps")


class VariantError(Exception):
    """A variant did not get through; the text is one line that says why."""


@dataclass(frozen=True)
class Job:
    """One variant, and what is to be found out about it."""

    spec: str
    technology: str
    goal: str = "area"
    clock: float | None = None  # ps; takes the first goal that meets it
    by_modules: bool = False  # area alone, module by module, for the largest blocks
    simulate: int = 0  # cases; 0 is none
    energy: bool = False  # of a PE's multiply-add on real data


@cache
def sources_key() -> str:
    """A digest that changes with every source that a result can depend on."""
    from tilewright.base.cache import content_key

    paths = [p for folder in SOURCES for p in sorted((ROOT / folder).rglob("*")) if _is_source(p)]
    return content_key(text for path in paths for text in (path.name, path.read_text()))


def _is_source(path: Path) -> bool:
    return path.suffix in (".py", ".toml", ".cpp") and path.is_file()


def quick_key(job: Job) -> str:
    """The name of the result of ``job``, as long as no source changes."""
    from tilewright.base.cache import content_key
    from tilewright.synth.record import tool_versions

    return content_key([json.dumps(asdict(job)), sources_key(), json.dumps(tool_versions())])


def run_apart(fields: dict[str, Any]) -> dict[str, Any]:
    """The result of ``Job(**fields)`` as JSON data, worked out in a process of its own.

    ``sources`` beside it is :func:`sources_key` where and when the work began.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        result = Path(folder) / "result.json"
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(result)],
            input=json.dumps(fields),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode or not result.exists():
            raise VariantError(_last_words(done.stderr, done.returncode))
        return dict(json.loads(result.read_text()))


def _last_words(text: str, code: int) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    ending = f"signal {-code}" if code < 0 else f"exit code {code}"
    return lines[-1].strip() if lines else f"ended with {ending} and said nothing"


def result_text(result: Result) -> str:
    """Write a result as a JSON document."""
    return json.dumps(asdict(result), indent=2) + "\n"


def _run(job: Job) -> Result:
    from tilewright.golden.params.resolve import resolve
    from tilewright.synth.emit import to_rtlil
    from tilewright.synth.technology import load_technology

    params, technology = resolve(job.spec), load_technology(job.technology)
    rtlil = to_rtlil(params, memory_macros=True)
    synthesise = _area_by_modules if job.by_modules else _synthesise
    return synthesise(job, params, rtlil, technology)


def _area_by_modules(
    job: Job, params: "BlockParams", rtlil: str, technology: "Technology"
) -> Result:
    from tilewright.synth.modules import area_by_modules
    from tilewright.synth.record import sha256

    area = area_by_modules(rtlil, params.slug, technology)
    return Result(
        spec=job.spec,
        technology=job.technology,
        goal="area by modules",
        parameters=params.as_dict(),
        metrics={
            "area": Metric(round(area.total, 3), "um2"),
            "memory_area": Metric(round(area.memory, 3), "um2"),
        },
        rtlil_sha256=sha256(rtlil),
        simulation=_simulate(job) if job.simulate else None,
    )


def _synthesise(job: Job, params: "BlockParams", rtlil: str, technology: "Technology") -> Result:
    from tilewright.synth.flow import Goal, synthesise, synthesise_for_clock
    from tilewright.synth.record import block_record

    if job.clock is None:
        netlist = synthesise(rtlil, params.slug, technology, Goal(job.goal))
    else:
        netlist = synthesise_for_clock(rtlil, params.slug, technology, job.clock)
    record = block_record(job.spec, params, rtlil, netlist)
    metrics = {
        name: Metric(metric["value"], metric["unit"]) for name, metric in record["metrics"].items()
    }
    if job.clock is not None:
        metrics["slack"] = Metric(round(job.clock - netlist.delay, 1), "ps")
    if job.energy:
        from tilewright.studies.pe.energy import measure_run

        metrics["energy"] = Metric(measure_run(params, netlist, "real", "")["total"], "fJ")
    path = record["longest_path"]
    return Result(
        spec=job.spec,
        technology=job.technology,
        goal=netlist.goal.value,
        parameters=params.as_dict(),
        metrics=metrics,
        rtlil_sha256=record["rtlil_sha256"],
        longest_path=path and LongestPath(path["start"], path["end"], tuple(path["cells"])),
        simulation=_simulate(job) if job.simulate else None,
    )


def _simulate(job: Job) -> Simulation:
    """The block's own bench on its Verilog; a failure is the variant's."""
    from tilewright.golden.params.resolve import resolve
    from tilewright.verify import cocotb_tests
    from tilewright.verify.job import Job as BenchJob
    from tilewright.verify.simulators import default_simulator, require_simulator, run_bench
    from tilewright.verify.simulators.verilog import block_verilog

    params = resolve(job.spec)
    result = run_bench(
        block_verilog(job.spec),
        params.slug,
        cocotb_tests(params),
        simulator=require_simulator(default_simulator()),
        job=BenchJob(job.spec, cases=job.simulate).as_dict(),
    )
    if not result.passed:
        first = (result.failure or "no reason given").splitlines()[0]
        raise VariantError(f"simulation: {first}")
    return Simulation(
        result.simulator.name, result.numbers.get("cases"), result.numbers.get("cycles")
    )


def _main() -> int:
    from tilewright.base.errors import CommandError

    try:
        sources = sources_key()
        result = _run(Job(**json.load(sys.stdin)))
    except KeyboardInterrupt:
        return 130
    except (CommandError, OSError, ValueError, VariantError) as error:
        print(error, file=sys.stderr)
        return 1
    Path(sys.argv[1]).write_text(json.dumps({"sources": sources, "result": asdict(result)}))
    return 0


if __name__ == "__main__":
    sys.exit(_main())
