"""Modules of emitted Verilog, as text: their ports, their instances, what their outputs depend on.

Read as Yosys writes it: one statement a line, a declaration for every wire.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Module", "Wire", "read_modules"]

_MODULE = re.compile(r"^module (\\\S+|\w+) ?\(.*?^endmodule\n", re.DOTALL | re.MULTILINE)
_PORT = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\\\S+|\w+) ?;", re.MULTILINE)
_ASSIGN = re.compile(r"^  assign (\\\S+|\w+) +?= (.*);$", re.MULTILINE)
_INSTANCE = re.compile(r"^  (\\\S+|\w+) +(?:\\\S+|\w+) +\($", re.MULTILINE)
_CONSTANT = re.compile(r"\d+'[bdh][0-9a-f]+")
_NAME = re.compile(r"\\\S+|[A-Za-z_]\w*")


@dataclass(frozen=True)
class Wire:
    """A port."""

    name: str  # as it is written, with a backslash where it needs one
    bits: int
    output: bool


@dataclass(frozen=True)
class Module:
    """One module."""

    name: str
    text: str

    @cached_property
    def ports(self) -> list[Wire]:
        return [
            Wire(name, int(high or 0) + 1, kind == "output")
            for kind, high, name in _PORT.findall(self.text)
        ]

    @cached_property
    def instances(self) -> Counter[str]:
        """By module."""
        return Counter(_INSTANCE.findall(self.text))

    def is_register(self, name: str) -> bool:
        return re.search(rf"^  reg .*{re.escape(name)} ?;", self.text, re.MULTILINE) is not None

    def declaration(self, name: str) -> str:
        """The line that declares a wire."""
        found = re.search(rf"^  wire .*{re.escape(name)} ?;", self.text, re.MULTILINE)
        assert found is not None, name
        return found[0]

    def initial(self, name: str) -> str | None:
        """What a register begins with."""
        found = re.search(rf"^  initial {re.escape(name)} ?= (.*);", self.text, re.MULTILINE)
        return found and found[1]

    def cone(self, output: str) -> list[str] | None:
        """Assignments that give ``output`` from inputs and from outputs that are registers.

        None where other registers or instances have a part in it.
        """
        ends = {p.name for p in self.ports if not p.output or self.is_register(p.name)}
        found: dict[str, str] = {}
        open_names = [output]
        while open_names:
            name = open_names.pop()
            if name in ends or name in found:
                continue
            expression = self._assigned.get(name)
            if expression is None:
                return None
            found[name] = expression
            open_names += _NAME.findall(_CONSTANT.sub("", expression))
        return [f"{name} = {expression}" for name, expression in found.items()]

    @cached_property
    def _assigned(self) -> dict[str, str]:
        return dict(_ASSIGN.findall(self.text))


def read_modules(verilog: str) -> dict[str, Module]:
    """All modules, by name."""
    return {m[1]: Module(m[1], m[0]) for m in _MODULE.finditer(verilog)}
