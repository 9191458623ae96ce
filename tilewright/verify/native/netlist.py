"""Modules of emitted Verilog, as text: their ports, instances and wire dependencies.

Read as Yosys writes it: one statement a line, a declaration for every wire, and no logic but in
``assign``. A wire counts as a whole: one bit of it that depends on an input lets all of it depend.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

_MODULE = re.compile(r"^module (\\\S+|\w+) ?\(.*?^endmodule\n", re.DOTALL | re.MULTILINE)
_RANGE = r"(signed )?(?:\[(\d+):0\] )?"
_PORT = re.compile(rf"^  (input|output) {_RANGE}(\\\S+|\w+) ?;", re.MULTILINE)
_DECLARED = re.compile(rf"^  (?:wire|reg) {_RANGE}(\\\S+|\w+) *(\[.*\])?;", re.MULTILINE)
_ASSIGN = re.compile(r"^  assign (.*?) += (.*);$", re.MULTILINE)
_INSTANCE = re.compile(r"^  (\\\S+|\w+) +(?:\\\S+|\w+) +\(\n((?:    \..*\n)*)  \);$", re.MULTILINE)
_CONNECTION = re.compile(r"^    \.(\\\S+|\w+) ?\((.*)\),?$", re.MULTILINE)
_NO_NAME = re.compile(r"\d+'s?[bdh][0-9a-fxz]+|\$(?:un)?signed")  # constants, functions
_NAME = re.compile(r"\\\S+|[A-Za-z_]\w*")


def names_in(expression: str) -> set[str]:
    """All wires that an expression has."""
    return set(_NAME.findall(_NO_NAME.sub("", expression)))


@dataclass(frozen=True)
class Wire:
    """A port, or a wire that becomes one."""

    name: str  # as it is written, with a backslash where it needs one
    bits: int
    signed: bool = False
    output: bool = True

    def declared(self, kind: str) -> str:
        """``kind`` is wire, input or output.

        A single bit has no range, as Yosys writes it: of two declarations of a wire, one with
        [0:0] and one without, Verilator 5.38 says that they conflict.
        """
        extent = f"[{self.bits - 1}:0] " if self.bits > 1 else ""
        return f"  {kind} {'signed ' * self.signed}{extent}{self.name} ;"


@dataclass(frozen=True)
class Assignment:
    """``assign text;``"""

    text: str
    to: frozenset[str]
    of: frozenset[str]


@dataclass(frozen=True)
class Instance:
    """A module in another."""

    module: str
    ports: dict[str, frozenset[str]]  # names that each is connected to


@dataclass(frozen=True)
class Module:
    """One module."""

    name: str
    text: str

    @cached_property
    def ports(self) -> list[Wire]:
        return [
            Wire(name, int(high or 0) + 1, bool(signed), kind == "output")
            for kind, signed, high, name in _PORT.findall(self.text)
        ]

    @cached_property
    def inputs(self) -> frozenset[str]:
        return frozenset(p.name for p in self.ports if not p.output)

    @cached_property
    def instances(self) -> Counter[str]:
        """By module."""
        return Counter(child.module for child in self.children)

    @cached_property
    def children(self) -> list[Instance]:
        return [
            Instance(
                module, {port: frozenset(names_in(e)) for port, e in _CONNECTION.findall(ports)}
            )
            for module, ports in _INSTANCE.findall(self.text)
        ]

    @cached_property
    def assignments(self) -> list[Assignment]:
        return [
            Assignment(f"{to} = {of}", frozenset(names_in(to)), frozenset(names_in(of)))
            for to, of in _ASSIGN.findall(self.text)
        ]

    @cached_property
    def assigned(self) -> dict[str, list[Assignment]]:
        """Assignments of each wire, in parts or as a whole."""
        found: dict[str, list[Assignment]] = {}
        for assignment in self.assignments:
            for name in assignment.to:
                found.setdefault(name, []).append(assignment)
        return found

    @cached_property
    def wires(self) -> dict[str, Wire]:
        """Every wire and register that is no memory, by name."""
        return {
            name: Wire(name, int(high or 0) + 1, bool(signed))
            for signed, high, name, memory in _DECLARED.findall(self.text)
            if not memory
        }

    @cached_property
    def memories(self) -> frozenset[str]:
        return frozenset(name for _, _, name, memory in _DECLARED.findall(self.text) if memory)

    def with_outputs(self, wires: list[Wire]) -> str:
        """Its text with ``wires`` as outputs too."""
        head, _, rest = self.text.partition(");\n")
        added = "".join(f", {wire.name} " for wire in wires)
        lines = "".join(f"{wire.declared('output')}\n" for wire in wires)
        return f"{head}{added});\n{lines}{rest}"


def read_modules(verilog: str) -> dict[str, Module]:
    """All modules, by name."""
    return {m[1]: Module(m[1], m[0]) for m in _MODULE.finditer(verilog)}
