"""Components that occur many times in a design: emitted once, instantiated often."""

import re
from collections.abc import Callable
from typing import Any

from amaranth import ClockSignal, Instance, Module, ResetSignal, Value
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.wiring import In


class SharedModules:
    """Platform on which every :class:`Shared` is an instance of one common module.

    ``modules`` then has the RTLIL of these modules by name.
    """

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}


class Shared(wiring.Component):
    """One of many equal components, with their ports.

    An array of hundreds of elements is otherwise written out hundreds of times, and Verilog,
    simulators and synthesis take that much longer. Without :class:`SharedModules` each one is a
    component of its own, as simulation in Python wants it.

    Parameters
    ----------
    name
        Name of the common module: equal names mean equal components.
    signature
        Its ports.
    make
        Makes the component.
    """

    def __init__(
        self, name: str, signature: wiring.Signature, make: Callable[[], wiring.Component]
    ):
        self.name, self.make = name, make
        super().__init__(signature)

    def elaborate(self, platform: Any) -> Module | Instance:
        if not isinstance(platform, SharedModules):
            m = Module()
            m.submodules.component = component = self.make()
            wiring.connect(m, wiring.flipped(self), component)
            return m
        if self.name not in platform.modules:
            text = rtlil.convert(self.make(), name=self.name, platform=platform, emit_src=False)
            platform.modules[self.name] = text.replace("attribute \\top 1\n", "")
        text = platform.modules[self.name]
        ports = {}
        for path, member, value in self.signature.flatten(self):
            direction = "i" if member.flow == In else "o"
            ports[f"{direction}_{'__'.join(map(str, path))}"] = Value.cast(value)
        # Not every module has registers, and not all registers are reset.
        for name, signal in (("clk", ClockSignal()), ("rst", ResetSignal())):
            if _has_input(text, self.name, name):
                ports[f"i_{name}"] = signal
        return Instance(self.name, **ports)


def _has_input(text: str, module: str, port: str) -> bool:
    start = text.index(f"module \\{module}\n")
    body = text[start : text.index("\nend\n", start)]
    return re.search(rf"^\s*wire .*input \d+ +\\{port}$", body, re.MULTILINE) is not None
