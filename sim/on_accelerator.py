"""A pass of a model on one accelerator: cycles of programs, with the formula as their bound.

Anda and Harmonia as this project has built them answer with the programs that run
(:mod:`tilewright.sim.step_programs`). Other accelerators and what-ifs of measured cycles are
formulas alone. Energy is watts while the array is busy, and energies of bits from buffers and
memory: of the programs where there are programs, as ``tilewright run`` has it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tilewright.compiler.energy import energy
from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape
from tilewright.sim import accelerator as acc
from tilewright.sim.calibration import measured
from tilewright.sim.scheme import cache_bytes
from tilewright.sim.target import Target
from tilewright.sim.workload import Batch, Gemm, MemoryBytes, Pass, Step, add_by_name, work


def steps_on_accelerator(
    target: Target, scheme: str | None, kv: str | None
) -> Callable[[LlmShape, Pass], Step]:
    """Return a function that times passes on one accelerator and caches what they share."""
    machine = target.accelerator(scheme)
    own = machine.cache_format
    require(kv in (None, own), f"{target.system} keeps keys and values in {own}; leave {kv!r} out")
    known: dict[Gemm, acc.GemmTime] = {}

    def step(model: LlmShape, part: Pass) -> Step:
        require(model.delta is None, f"{model.name}: linear attention is modelled on servers alone")
        times = []
        for product in work(model, part):
            if product not in known:
                (known[product],) = acc.run(machine, [product])
            times.append(known[product])
        return _step(target, machine, model, part, times)

    return step


def _step(
    target: Target,
    machine: acc.Accelerator,
    model: LlmShape,
    step: Pass,
    times: Sequence[acc.GemmTime],
) -> Step:
    cycles = formula = sum(t.cycles for t in times)
    share = {
        "compute": sum(t.compute for t in times) / cycles,
        "memory": sum(t.transfer for t in times) / cycles,
    }
    parts = add_by_name((t.gemm.name, t.cycles) for t in times)
    remarks = [machine.energy_from] if machine.energy_from else []
    if not machine.power:
        remarks.append("energy is that of buffers and memory alone")
    if target.built is not None:
        remarks.append(f"memory at the port of {target.built.slug}, as built")
    params, reason = target.programmed, ""
    if params is None:
        reason = "programs are written for anda and harmonia alone"
    elif measured(f"{machine.name}.cycles") != 1.0:
        params, reason = None, "measured cycles are changed"
    kind: str = "formula"
    joules = acc.energy(machine, times)
    if params is not None:
        # Imported here: other accelerators need nothing of programs.
        from tilewright.sim.step_programs import step_time

        found = step_time(params, model, step, latency=target.timing, lengths=machine.lengths)
        reason = found.missing
        if found.kind != "formula":
            kind, cycles, formula = found.kind, found.cycles, found.bound
            programs = found.programs
            parts = {name: part.cycles for name, part in found.parts.items()}
            units = ("gemm", "vector", "convert", "load", "store")
            share = {name: getattr(programs, name) / cycles for name in units}
            joules = energy(machine, vars(programs), dict(programs.sums), params.line_bytes)
            remarks.append(
                f"cycles are those of the programs, {found.ratio:.2f} times the formula's bound of"
                f" {1e3 * formula / machine.clock:.4g} ms"
            )
            if found.interpolated:
                remarks.append(f"{found.interpolated} steps of the prompt are interpolated")
    if reason:
        remarks.append(f"formula only: {reason}")
    weights = acc.stored_weights(model, machine.weight_bits)
    cache = cache_bytes(model, step.batch, machine.cache_bits)
    lengths = "/".join(str(length) for length in machine.lengths.values())
    return Step(
        scheme=machine.scheme or (lengths if machine.name in ("anda", "harmonia") else "fp16"),
        kv_format=machine.cache_format,
        seconds=cycles / machine.clock,
        formula_seconds=formula / machine.clock,
        kind=kind,
        utilisation=share,
        bound=max(share, key=lambda name: share[name]),
        ms_by_part={name: 1e3 * value / machine.clock for name, value in parts.items()},
        joules_by_part=joules,
        memory_bytes=MemoryBytes(weights, cache, machine.capacity),
        remarks=tuple(remarks),
    )


def in_turn(run: Callable[[Pass], Step], work: Pass, rows: int, *, spread: bool = False) -> Step:
    """Return a step of all sequences, in one pass or in turn, whichever has more tokens a second.

    An array takes whole token tiles: nine sequences on eight rows are two tiles, and take as long
    as sixteen. Eight of the nine in a pass, each time another one left out, have all rows at work.
    Every sequence then has its next token after 9/8 passes on average: the time of a step.

    ``rows`` are the sequences of a whole tile; a pass has the most whole tiles, or where tokens
    ``spread`` over experts, each with tiles of its own, any number of them. Only tokens of
    sequences that are equally long are taken so.
    """
    whole = run(work)
    ((count, tokens), *others) = work.batch.groups
    if others or work.new != 1 or count == 1:
        return whole
    most = count // rows * rows or 1
    parts = {
        few: run(Pass(Batch(((few, tokens),))))
        for few in (range(rows, most + 1, rows) if spread and most > 1 else (most,))
    }
    few = min(parts, key=lambda few: parts[few].seconds / few)
    part = parts[few]
    turns = count / few
    if turns * part.seconds >= whole.seconds:
        return whole

    def scaled(values: dict[str, float]) -> dict[str, float]:
        return {name: turns * value for name, value in values.items()}

    formula = part.formula_seconds
    return replace(
        part,
        seconds=turns * part.seconds,
        formula_seconds=None if formula is None else turns * formula,
        ms_by_part=scaled(part.ms_by_part),
        joules_by_part=scaled(part.joules_by_part),
        memory_bytes=whole.memory_bytes,
        pass_batch=few,
        remarks=(
            f"{few} of {count} sequences in a pass, in turn: {1e3 * whole.seconds:.4g} ms if all"
            " were in each; the latency is that of a sequence's next token on average",
            *part.remarks,
        ),
    )
