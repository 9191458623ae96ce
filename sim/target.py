"""What runs the work: a modelled system, or a block of this project in it.

A system is one of ``tilewright.sim.xeon.SYSTEMS`` with an engine, or one of
``tilewright.sim.accelerator.ACCELERATORS``. With a block, which is a parameter object, a Xeon has
that DECA beside every core, and an accelerator has the array, the buffers and the memory port of
its RTL.
"""

import re
from dataclasses import dataclass

from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.block import BlockParams, require
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.names import unknown
from tilewright.sim import xeon
from tilewright.sim.accelerator import ACCELERATORS, Accelerator
from tilewright.sim.xeon import PAPER_DECA, Xeon

__all__ = ["DEFAULT_SYSTEM", "LATENCY", "Target", "resolve_target", "system_names"]

DEFAULT_SYSTEM = "spr-hbm"
DEFAULT_ENGINE = "deca"
BLOCKS = ("anda", "deca", "harmonia")
LATENCY = 30  # cycles from a line's request to its answer: 100 ns of HBM at 285 to 300 MHz
LONGEST_LATENCY = 1 << 20  # cycles; a longer one is a slip of the keyboard
LENGTHS = re.compile(r"\d+(?:/\d+){0,3}")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A system with its engine or block; :func:`resolve_target` makes valid ones."""

    system: str
    engine: str | None = None  # of a Xeon
    block: AndaParams | DecaParams | HarmoniaParams | None = None
    latency: int = LATENCY  # of the memory of a block that is an accelerator, in cycles

    @property
    def xeon(self) -> Xeon | None:
        """The server, where the system is one."""
        return xeon.SYSTEMS.get(self.system)

    @property
    def deca(self) -> DecaParams:
        """The DECA beside every core, where the engine is one."""
        return self.block if isinstance(self.block, DecaParams) else PAPER_DECA

    @property
    def built(self) -> AndaParams | HarmoniaParams | None:
        """The accelerator whose programs run, where the block is one."""
        return None if isinstance(self.block, DecaParams) else self.block

    def accelerator(self, scheme: str | None) -> Accelerator:
        """Return the machine with the mantissa lengths that ``scheme`` names: M or qkv/o/u/d."""
        if self.built is None:
            machine = ACCELERATORS[self.system]()
        else:
            # Imported here: most results need nothing of the accelerators' programs.
            from tilewright.sim.programs import as_built

            machine = as_built(self.built, latency=self.latency)
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
        names = list(machine.lengths)
        return machine.with_lengths(dict(zip(names, lengths * (4 // len(lengths)), strict=True)))


def system_names() -> list[str]:
    """Return the names of all systems, the Xeons first."""
    return [*xeon.SYSTEMS, *ACCELERATORS]


def resolve_target(
    system: str | None = None,
    *,
    engine: str | None = None,
    block: BlockParams | None = None,
    latency: int | None = None,
) -> Target:
    """Return the target of these words; what does not go together is refused."""
    if system is not None and system not in system_names():
        raise ValueError(unknown("system", system, system_names()))
    # By name, as other blocks have parameters of the same classes: a DECA with its TEPL unit, say.
    if block is not None and block.block not in BLOCKS:
        raise ValueError(f"block must be anda, deca or harmonia, not {block.block}")
    if isinstance(block, AndaParams | HarmoniaParams):
        require(
            system in (None, block.block) and engine is None,
            f"block {block.slug} is the system; leave system and engine out",
        )
        cycles = LATENCY if latency is None else latency
        require(
            1 <= cycles <= LONGEST_LATENCY, f"latency must be 1..{LONGEST_LATENCY}, not {cycles}"
        )
        return Target(system=block.block, block=block, latency=cycles)
    require(latency is None, "latency is that of block anda or harmonia; leave it out")
    name = DEFAULT_SYSTEM if system is None else system
    if isinstance(block, DecaParams):
        require(
            name in xeon.SYSTEMS,
            f"block {block.slug} is beside the cores of {_xeons()}, not in {name}",
        )
        require(engine in (None, "deca"), f"block {block.slug} is the engine; leave {engine!r} out")
        return Target(system=name, engine="deca", block=block)
    if name in ACCELERATORS:
        require(engine is None, f"{name} has no engines; engines belong to {_xeons()}")
        return Target(system=name)
    chosen = DEFAULT_ENGINE if engine is None else engine
    if chosen not in xeon.ENGINES:
        raise ValueError(unknown("engine", chosen, xeon.ENGINES))
    return Target(system=name, engine=chosen)


def _xeons() -> str:
    return " and ".join(xeon.SYSTEMS)
