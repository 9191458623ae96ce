"""Targets of the model: a modelled system, or a block of this project in it.

A system is a server with an engine (``tilewright.sim.system``: one by name, or a TOML file), or one
of ``tilewright.sim.accelerator.ACCELERATORS``. With a block, which is a parameter object, a server
has that DECA at every core, and an accelerator has the array, the buffers and the memory port
of its RTL. Settings change fields of either.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import cast

from tilewright.golden.machine.moves import LATENCY, Timing, timing_of
from tilewright.golden.machine.port import FLAT, memory_timing
from tilewright.golden.params.block import BlockParams, require
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.machine import MachineParams
from tilewright.golden.params.names import unknown
from tilewright.golden.params.resolve import resolve
from tilewright.sim import xeon
from tilewright.sim.accelerator import ACCELERATORS, BUILT, PUBLISHED, Accelerator, as_built
from tilewright.sim.own_accelerator import SETTINGS, is_accelerator, read_accelerator
from tilewright.sim.records import KERNELS, NoRecordError, area_um2, system_um2
from tilewright.sim.system import Server, changed_server, read_server, settings_in_base_units
from tilewright.sim.xeon import PAPER_DECA

DEFAULT_SYSTEM = "spr-hbm"
DEFAULT_ENGINE = "deca"
BLOCKS = ("anda", "deca", "harmonia")
LONGEST_LATENCY = 1 << 20  # cycles; a longer one is a typing error
LENGTHS = re.compile(r"\d+(?:/\d+){0,3}")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A system with its engine or block; :func:`resolve_target` makes valid ones."""

    system: str
    server: Server | None = None  # where the system is one
    engine: str | None = None  # of a server
    own: Accelerator | None = None  # that a user's file describes
    settings: tuple[tuple[str, float], ...] = ()  # of an accelerator, in base units
    block: DecaParams | MachineParams | None = None
    latency: int = LATENCY  # of the memory of a block that is an accelerator, in cycles
    memory: str = FLAT  # or DRAM by name

    @property
    def deca(self) -> DecaParams:
        """The DECA of every core, where the engine is one."""
        block = None if isinstance(self.block, MachineParams) else self.block
        return block or PAPER_DECA

    @property
    def built(self) -> MachineParams | None:
        """The accelerator whose programs run, where the block is one."""
        return self.block if isinstance(self.block, MachineParams) else None

    @property
    def programmed(self) -> MachineParams | None:
        """The accelerator of this project that programs run on, the published one by default."""
        if self.own is not None or self.server is not None:
            return None
        return self.built or PUBLISHED.get(self.system)

    @property
    def timing(self) -> Timing:
        """Timing of external memory: cycles to a line, and between two lines of a channel.

        A published machine has the memory of its paper, one as built a memory as fast as its port,
        as ``tilewright run`` has. One that brings more than the port takes has the port's rate.
        """
        params, given = self.programmed, dict(self.settings)
        if params is None:
            return Timing(self.latency)
        machine = BUILT[params.block](params)
        clock = given.get("clock", machine.clock)
        if self.memory != FLAT:
            return timing_of(memory_timing(self.memory, None, params, clock))
        port = params.beat_bits * clock / 8
        bandwidth = given.get("bandwidth", machine.bandwidth if self.built is None else port)
        lines = Fraction(port / bandwidth).limit_denominator(1000)
        return Timing(self.latency, max(Fraction(1), lines))

    def accelerator(self, scheme: str | None) -> Accelerator:
        """Return the machine with the mantissa lengths that ``scheme`` names: M or qkv/o/u/d."""
        if self.built is None:
            machine = self.own or ACCELERATORS[self.system]()
        else:
            machine = as_built(
                self.built, latency=self.latency, interval=float(self.timing.interval)
            )
        names = {"memory_energy": "memory_pj_per_bit"}
        own = {names.get(k, k): v for k, v in self.settings}
        if self.built is not None:
            own["bandwidth"] = machine.bandwidth  # that of the port, if the memory's is more
        elif self.memory != FLAT and self.programmed is not None:
            own["bandwidth"] = float(
                self.programmed.beat_bits * machine.clock / 8 / self.timing.interval
            )
        machine = replace(machine, **own)  # type: ignore[arg-type]
        if scheme is None:
            return machine
        require(self.system == "anda", f"{self.system} has one scheme; leave it out")
        require(
            LENGTHS.fullmatch(scheme) is not None and scheme.count("/") in (0, 3),
            f"scheme of anda must be a mantissa length or four, like 7/7/6/5, not {scheme!r}",
        )
        lengths = [int(word) for word in scheme.split("/")]
        for length in lengths:
            require(1 <= length <= 16, f"mantissa lengths must be 1..16, not {length}")
        modules = list(machine.lengths)
        return machine.with_lengths(dict(zip(modules, lengths * (4 // len(lengths)), strict=True)))


def silicon_mm2(target: Target) -> float | None:
    """Return the area in square millimetres, or None where it is not known.

    Accelerators are those of their system records, synthesised at 7 nm and not placed; so are the
    DECAs that are added to a server's dies.
    """
    server = target.server
    try:
        if server is not None:
            decas = server.cores if target.engine == "deca" and server.die_area else 0
            more = decas and decas * area_um2(target.deca.slug, "fastest") / 1e6
            return server.die_area + more or None
        if target.own is not None:
            return target.own.area_mm2
        return system_um2(target.system if target.built is None else target.built.slug) / 1e6
    except NoRecordError:
        return None


def system_names() -> list[str]:
    """Return the names of all systems, servers first."""
    return [*xeon.SYSTEMS, *ACCELERATORS]


def resolve_target(
    system: str | None = None,
    *,
    engine: str | None = None,
    block: BlockParams | str | None = None,
    latency: int | None = None,
    memory: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Target:
    """Return the target that these options name; contradictions are refused.

    ``system`` is a name or a TOML file of a server or an accelerator, ``block`` parameters or a
    name such as ``harmonia,rows=4``, ``memory`` of an accelerator of this project ``flat`` or DRAM
    by name, ``settings`` are fields and their values.
    """
    found = _resolved(system, engine, block, latency, settings or {})
    if memory in (None, FLAT):
        return found
    require(found.programmed is not None, f"memory {memory} is that of anda or harmonia")
    for name, given in (
        ("latency", latency is not None),
        ("bandwidth", "bandwidth" in (settings or {})),
    ):
        require(not given, f"memory {memory} has a {name} of its own; leave that out")
    found = replace(found, memory=str(memory))
    assert found.timing.dram is not None  # a name or lines that no memory has are refused here
    return found


def _resolved(
    system: str | None,
    engine: str | None,
    block: BlockParams | str | None,
    latency: int | None,
    changes: Mapping[str, str],
) -> Target:
    block = resolve(block) if isinstance(block, str) else block
    name = DEFAULT_SYSTEM if system is None else system
    machine: Server | Accelerator | None  # none: an accelerator of ours
    if name.endswith(".toml"):
        path = Path(name)
        machine = read_accelerator(path) if is_accelerator(path) else read_server(path)
    else:
        machine = xeon.SYSTEMS.get(name)
        if machine is None and name not in ACCELERATORS:
            raise ValueError(unknown("system", name, system_names()))
    # By name, as other blocks have parameters of the same classes: a DECA with its TEPL unit, say.
    if block is not None and block.block not in BLOCKS:
        raise ValueError(f"block must be anda, deca or harmonia, not {block.block}")
    if isinstance(block, MachineParams):
        require(
            system in (None, block.block) and engine is None,
            f"block {block.slug} is the system; leave system and engine out",
        )
        cycles = LATENCY if latency is None else latency
        require(
            1 <= cycles <= LONGEST_LATENCY, f"latency must be 1..{LONGEST_LATENCY}, not {cycles}"
        )
        set_there = _accelerator_settings(changes)
        return Target(system=block.block, block=block, latency=cycles, settings=set_there)
    require(latency is None, "latency is that of block anda or harmonia; leave it out")
    deca = cast("DecaParams | None", block)  # no other block is left
    if not isinstance(machine, Server):
        require(
            deca is None,
            f"block {deca and deca.slug} is beside the cores of a server, not in {name}",
        )
        require(engine is None, f"{name} has no engines; engines belong to servers")
        own = name if machine is None else machine.name
        return Target(system=own, own=machine, settings=_accelerator_settings(changes))
    if deca is not None:
        require(engine in (None, "deca"), f"block {deca.slug} is the engine; leave {engine!r} out")
    engine = DEFAULT_ENGINE if engine is None else engine
    if engine not in (known := (*xeon.ENGINES, *KERNELS)):
        raise ValueError(unknown("engine", engine, known))
    machine = changed_server(machine, changes)
    return Target(system=machine.name, server=machine, engine=engine, block=deca)


def _accelerator_settings(settings: Mapping[str, str]) -> tuple[tuple[str, float], ...]:
    return tuple(settings_in_base_units("an accelerator", SETTINGS, settings).items())
