"""What every flow needs of a block: Verilog around memory macros, its clock and its period."""

from dataclasses import dataclass
from functools import cached_property

from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import CLOCK, to_rtlil, verilog_from_rtlil
from tilewright.synth.fpga.harness import ports_of
from tilewright.synth.memory import MemoryMacro, find_macros, macro_model, macro_port_module
from tilewright.synth.record import find_record
from tilewright.synth.technology import Technology, load_technology

__all__ = ["WIRE_MARGIN", "Design", "design_of"]

# Of the period over the delay of the synthesised block, which has met no wire: a first guess at
# what wires and their buffers add, to be tightened by who runs the flow.
WIRE_MARGIN = 1.25


@dataclass(frozen=True)
class Design:
    """A block to hand over: its parameters, its technology and the clock period to strive for."""

    params: BlockParams
    technology: Technology
    period: float  # ps

    @property
    def name(self) -> str:
        """Of the top module."""
        return self.params.slug

    @cached_property
    def rtlil(self) -> str:
        """With memories as instances of macros."""
        return to_rtlil(self.params, memory_macros=True)

    @cached_property
    def macros(self) -> list[MemoryMacro]:
        """Every kind of memory macro in the block."""
        return find_macros(self.rtlil)

    @property
    def clocked(self) -> bool:
        """Whether the block has registers; one without has no port for a clock."""
        return any(port.name == CLOCK for port in ports_of(self.rtlil, self.name))

    @property
    def verilog(self) -> str:
        """Of the block; its memory macros are instances of modules that it does not define."""
        return f"// {self.name}: {self.params.summary}\n" + verilog_from_rtlil(self.rtlil)

    @property
    def black_boxes(self) -> str:
        """Verilog that declares the pins of every macro, for synthesis."""
        return "".join(f"(* blackbox *)\n{macro_port_module(macro)}" for macro in self.macros)

    @property
    def models(self) -> str:
        """Verilog of what every macro does, for simulation."""
        return "".join(map(macro_model, self.macros))


def design_of(block: str, technology: str, period: float | None = None) -> Design:
    """Return the block ``block`` (``NAME[:PRESET][,FIELD=VALUE]...``) for a technology.

    Without a period (ps) it is the delay of the block's committed synthesis record and
    ``WIRE_MARGIN``; a block without a record is refused.
    """
    params, cells = resolve(block), load_technology(technology)
    if period is None:
        record = find_record(params, cells.name)
        if record is None:
            raise ValueError(
                f"{block} has no synthesis record in {technology} to take its clock from:"
                " give one, such as --clock 500MHz"
            )
        period = WIRE_MARGIN * record["metrics"]["delay"]["value"]
    if period <= 0:
        raise ValueError(f"the clock period must be positive, not {period:g} ps")
    return Design(params, cells, period)
