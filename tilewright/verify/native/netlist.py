"""Modules of emitted Verilog, as text: their ports and instances, and what wires depend on.

Read as Yosys writes it: one statement a line, a declaration for every wire, and no logic but in
``assign``. A wire counts as a whole: one bit of it that depends on an input lets all of it depend.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

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


class Wire(NamedTuple):
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


class Assignment(NamedTuple):
    """``assign text;``"""

    text: str
    to: set[str]
    of: set[str]


class Instance(NamedTuple):
    """A module in another."""

    module: str
    ports: dict[str, set[str]]  # names that each is connected to


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
    def inputs(self) -> set[str]:
        return {p.name for p in self.ports if not p.output}

    @cached_property
    def instances(self) -> Counter[str]:
        """By module."""
        return Counter(child.module for child in self.children)

    @cached_property
    def children(self) -> list[Instance]:
        return [
            Instance(module, {port: names_in(e) for port, e in _CONNECTION.findall(ports)})
            for module, ports in _INSTANCE.findall(self.text)
        ]

    @cached_property
    def assignments(self) -> list[Assignment]:
        return [
            Assignment(f"{to} = {of}", names_in(to), names_in(of))
            for to, of in _ASSIGN.findall(self.text)
        ]

    @cached_property
    def wires(self) -> dict[str, Wire]:
        """Every wire and register that is no memory, by name."""
        return {
            name: Wire(name, int(high or 0) + 1, bool(signed))
            for signed, high, name, memory in _DECLARED.findall(self.text)
            if not memory
        }

    @cached_property
    def memories(self) -> set[str]:
        return {name for _, _, name, memory in _DECLARED.findall(self.text) if memory}

    def with_outputs(self, wires: list[Wire]) -> str:
        """Its text with ``wires`` as outputs too."""
        head, _, rest = self.text.partition(");\n")
        added = "".join(f", {wire.name} " for wire in wires)
        lines = "".join(f"{wire.declared('output')}\n" for wire in wires)
        return f"{head}{added});\n{lines}{rest}"


class Cut(NamedTuple):
    """A module in two halves.

    Wires of ``state`` change at the edge of the clock alone. The outputs that are not in it follow
    from it and from inputs by the statements in ``logic``, which assign the wires ``within`` too.
    """

    state: tuple[Wire, ...]
    logic: tuple[str, ...]
    within: tuple[Wire, ...]


class Design:
    """The modules of some Verilog, by name, and the paths through their logic within a cycle."""

    def __init__(self, verilog: str):
        self.modules = {m[1]: Module(m[1], m[0]) for m in _MODULE.finditer(verilog)}
        self.inputs_of = cache(self._inputs_of)

    def cut(self, name: str) -> Cut | None:
        """None where an output depends on inputs through another module or a memory."""
        module, depends = self.modules[name], self.inputs_of(name)
        outputs = {p.name for p in module.ports if p.output}
        by_child = {wire for _, wires in self._paths_of_children(module) for wire in wires}
        assigned_by: dict[str, list[Assignment]] = defaultdict(list)
        for assignment in module.assignments:
            for wire in assignment.to:
                assigned_by[wire].append(assignment)
        state = {output for output in outputs if not depends[output]}
        open_names, assigned, statements = outputs - state, set[str](), set[str]()
        while open_names:
            wire = open_names.pop()
            assigned.add(wire)
            if wire in by_child or wire not in assigned_by:
                return None
            for text, to, of in assigned_by[wire]:
                statements.add(text)
                open_names |= to - assigned
                for source in of - assigned - module.inputs:
                    if source in module.memories:
                        return None
                    (open_names if depends[source] else state).add(source)
        return Cut(
            tuple(module.wires[wire] for wire in sorted(state - assigned)),
            tuple(sorted(statements)),  # the same text in every process, for the cache
            tuple(module.wires[wire] for wire in sorted(assigned - outputs)),
        )

    def _paths_of_children(self, module: Module) -> list[tuple[set[str], set[str]]]:
        """For each output of each instance, the wires that it follows from, and those it gives."""
        return [
            (
                {n for i in self.inputs_of(child)[port.name] for n in names.get(i, ())},
                names.get(port.name, set()),
            )
            for child, names in module.children
            if child in self.modules
            for port in self.modules[child].ports
            if port.output
        ]

    def _inputs_of(self, name: str) -> dict[str, set[str]]:
        """The inputs on which every wire of a module depends, in this cycle."""
        module = self.modules[name]
        after: dict[str, set[str]] = defaultdict(set)  # wires that follow from each at once
        steps = [(assignment.of, assignment.to) for assignment in module.assignments]
        for sources, given in steps + self._paths_of_children(module):
            for source in sources:
                after[source] |= given
        found = {wire: set[str]() for wire in (*module.wires, *module.memories)}
        for wire in module.inputs:
            reached, open_names = {wire}, [wire]
            while open_names:
                news = after[open_names.pop()] - reached
                reached |= news
                open_names += news
            for to in reached:
                found.setdefault(to, set()).add(wire)
        return found
