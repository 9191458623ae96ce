"""Records of area, delay and energy of processing elements on one workload."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from numpy.typing import NDArray

from tilewright.base.cores import available_cores
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.workload import (
    DOTS,
    KINDS,
    LENGTH,
    SAMPLES,
    SEED,
    STREAMS,
    Workload,
    pe_bench,
    workload,
)
from tilewright.synth.activity import Activity, measure
from tilewright.synth.emit import to_rtlil
from tilewright.synth.energy import (
    COMPONENTS,
    RENT_EXPONENT,
    UTILISATION,
    energy_of,
    wire_capacitance,
)
from tilewright.synth.flow import Synthesis, synthesise
from tilewright.synth.liberty import to_liberty
from tilewright.synth.netlist import Netlist
from tilewright.synth.record import (
    ENERGY,
    block_record,
    energy_sha256,
    find_record,
    flow_sha256,
    is_of_this_flow,
    record_name,
    rtlil_sha256,
    sha256,
    store_record,
    store_synthesis,
    tool_versions,
)
from tilewright.synth.technology import Technology, load_technology
from tilewright.verify.dots import ComparedArray

REACHING = ">"  # end of the names of parts of instances that drive PEs
CLOCK_MHZ = 285  # of every system in Anda's comparison: tilewright/claims/anda.toml

# PEs of the comparison, in its order; all others are normalised to the first. They have the
# arrangement that the rule of ``points`` selects, with operands outside.
PES = {
    "FP-FP": "pe_fp_fp,stages=2,adder=carry_save,isolated=true",
    "FP-FP discrete": "pe_fp_fp:discrete,isolated=true",
    "FP-INT": "pe_fp_int,stages=4,bounded=true",
    "iFPU": "pe_ifpu,stages=3,adder=carry_save,bounded=true",
    "FIGNA": "pe_figna,stages=3,adder=chain,bounded=true",
    "FIGNA-M11": "pe_figna,stages=3,bounded=true,mantissa_bits=11",
    "FIGNA-M8": "pe_figna,stages=3,bounded=true,mantissa_bits=8",
    "FIGNA-C": "pe_figna_c,stages=3,bounded=true,merged=true",
    "DECA lane": "pe_deca",
    "Anda": "anda_apu:bare",
    "Anda buffered": "anda_apu",
    "Harmonia": "harmonia_pe:single,stages=3,bounded=true,merged=true",
}


def load_energy(spec: str, technology: Technology, *, gating: bool = True) -> dict[str, Any] | None:
    """Return the committed record, or None."""
    return find_record(resolve(spec), technology.name, gating=gating, kind=ENERGY)


def is_fresh_energy(spec: str, technology: Technology, *, gating: bool = True) -> bool:
    """Say whether there is a record of the PE, flow and energies as they are now."""
    record = load_energy(spec, technology, gating=gating)
    return (
        record is not None
        and is_measured_now(record, _workload())
        and record["rtlil_sha256"] == rtlil_sha256(spec)
    )


def is_measured_now(record: dict[str, Any], workload: dict[str, Any]) -> bool:
    """Say whether flow, energies and workload are those of a record; not the block itself."""
    technology = record["technology"]
    return (
        is_of_this_flow(record, technology)
        and record.get("energy_sha256") == energy_sha256(technology)
        and record["workload"] == workload
    )


def made_with(technology: str) -> dict[str, Any]:
    """Return what decides the energy of a PE besides its RTL: cells, flow, tools, data."""
    return {
        "liberty_sha256": sha256(to_liberty(load_technology(technology))),
        "flow_sha256": flow_sha256(technology),
        "tools": tool_versions(),
        "energy_sha256": energy_sha256(technology),
        "workload": _workload(),
    }


def _workload() -> dict[str, Any]:
    tensors = hashlib.sha256(SAMPLES.read_bytes()).hexdigest()
    sizes = {"streams": STREAMS, "dots": DOTS, "length": LENGTH}
    return {**sizes, "seed": SEED, "tensors_sha256": tensors}


def make_records(
    spec: str, technology: Technology, gating: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Synthesise and measure a PE: its synthesis and its energy record, of one netlist."""
    params = resolve(spec)
    rtlil = to_rtlil(params, memory_macros=True)
    result = synthesise(rtlil, params.slug, technology, gating=gating)
    record = block_record(spec, params, rtlil, result)
    bench = pe_bench(params)
    variants = {kind: (bench.usual_variant,) for kind in KINDS} | {"real": bench.variants}
    parts = {}
    if isinstance(bench, ComparedArray):
        variants = {"real": bench.variants}
        parts["parts"] = bench.by_growth(params, result.area_by_part)
    return record, {
        **energy_record(record, result),
        **parts,
        "clock_mhz": CLOCK_MHZ,
        "workload": _workload(),
        "units": {
            "area": "um2",
            "delay": "ps",
            "leakage": "nW",
            "register_bits": "bits",
            "gated_bits": "bits",
            "clock_gates": "cells",
            "energy": "fJ per MAC",
        },
        "runs": {
            f"{kind} {variant}".strip(): measure_run(params, result, kind, variant)
            for kind, of_kind in variants.items()
            for variant in of_kind
        },
    }


def energy_record(record: dict[str, Any], result: Synthesis) -> dict[str, Any]:
    """Return what energy records have of a block's synthesis record, and the wires assumed."""
    copied = (
        *("block", "spec", "technology", "goal", "clock_gating"),
        *("rtlil_sha256", "liberty_sha256", "flow_sha256", "tools"),
    )
    named = ("area", "delay", "leakage", "register_bits", "gated_bits", "clock_gates")
    return {
        **{key: record[key] for key in copied},
        "energy_sha256": energy_sha256(result.technology.name),
        "wire": {
            "rent_exponent": RENT_EXPONENT,
            "utilisation": UTILISATION,
            "ff_per_sink": round(wire_capacitance(result.netlist, result.technology), 4),
        },
        "metrics": {name: record["metrics"][name]["value"] for name in named},
    }


def record_jobs(
    specs: Sequence[str], technologies: Sequence[Technology], *, only_stale: bool = False
) -> list[tuple[str, Technology, bool]]:
    """List the jobs of :func:`update_records`, with clock gates and without; by default all PEs."""
    for spec in specs:
        pe_bench(resolve(spec))
    return [
        (spec, technology, gating)
        for gating in (True, False)
        for spec in specs or PES.values()
        for technology in technologies
        if not (only_stale and is_fresh_energy(spec, technology, gating=gating))
    ]


def update_records(jobs: Sequence[tuple[str, Technology, bool]]) -> Iterator[str]:
    """Make and write the records of ``jobs``, several at once; tells each one that is done.

    Arrays have no record of synthesis, which would need a proof: their netlists are simulated.
    """
    if not jobs:
        return
    # Processes, as a netlist is simulated in Python; not forked, as there are threads.
    with ProcessPoolExecutor(available_cores(), get_context("spawn")) as pool:
        made = pool.map(make_records, *zip(*jobs, strict=True))
        for (spec, technology, gating), (record, energy) in zip(jobs, made, strict=True):
            name = record_name(resolve(spec), technology.name, gating=gating)
            store_record(ENERGY, technology.name, name, energy)
            if not isinstance(pe_bench(resolve(spec)), ComparedArray):
                store_synthesis(record)
            yield f"{spec} {technology.name}"


def measure_run(
    params: BlockParams, result: Synthesis, kind: str, variant: str, real: NDArray | None = None
) -> dict[str, Any]:
    """Energy of a netlist on one kind of data; a result that is not golden's is an error."""
    asked = workload(params, kind, variant, real)
    activity = checked_activity(result.netlist, asked, f"{params.slug} on {kind} data")
    bench, period = pe_bench(params), 1e6 / CLOCK_MHZ
    part_of = _part_of_nets(result, bench) if isinstance(bench, ComparedArray) else None
    energy = energy_of(result.netlist, result.technology, activity, period, part_of)
    run: dict[str, Any] = {
        "macs_per_cycle": round(asked.macs / activity.cycles, 4),
        **{c: round(getattr(energy, c) / asked.macs, 4) for c in (*COMPONENTS, "total")},
    }
    if isinstance(bench, ComparedArray):
        nets: dict[str, float] = defaultdict(float)
        others: dict[str, float] = defaultdict(float)
        for name, part in energy.parts.items():
            reaching = part.switching if name.endswith(REACHING) else 0.0
            nets[name.removesuffix(REACHING)] += reaching / asked.macs
            others[name.removesuffix(REACHING)] += (part.total - reaching) / asked.macs
        run["parts"] = bench.by_growth(params, others, nets)
    return run


def _part_of_nets(result: Synthesis, bench: ComparedArray) -> list[str]:
    """The part of each instance of an array, marked where it is in a PE or its nets reach one."""
    both = [*zip(result.netlist.instances, result.part_of, strict=True)]
    inside = [bench.kind(part) == "pe" for part in result.part_of]
    read = {
        i.pins.get(pin)
        for (i, _), pe in zip(both, inside, strict=True)
        if pe
        for pin in i.cell.inputs
    }
    return [
        part + REACHING * (pe or any(i.pins.get(pin) in read for pin in i.cell.outputs))
        for (i, part), pe in zip(both, inside, strict=True)
    ]


def checked_activity(netlist: Netlist, asked: Workload, name: str) -> Activity:
    """The toggles of a netlist on a workload, whose results it must give."""
    activity = measure(netlist, STREAMS, asked.beats, asked.counted)
    if activity.results["o"] != asked.results:
        raise RuntimeError(f"the netlist of {name} gives wrong results")
    return activity
