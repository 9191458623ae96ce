"""Paths through the logic of modules, from inputs to outputs within a cycle."""

from dataclasses import dataclass
from functools import cache

from tilewright.verify.native.netlist import Module, Wire


@dataclass(frozen=True)
class Cut:
    """A module in two halves.

    Wires of ``state`` change at the edge of the clock alone. The outputs that are not in it follow
    from it and from inputs by the statements in ``logic``, which assign the wires ``within`` too.
    """

    state: tuple[Wire, ...]
    logic: tuple[str, ...]
    within: tuple[Wire, ...]


class Paths:
    """The modules of a design."""

    def __init__(self, modules: dict[str, Module]):
        self._modules = modules
        self._of = cache(self._find)

    def inputs_of(self, module: str) -> dict[str, frozenset[str]]:
        """The inputs on which every wire of a module depends, in this cycle."""
        return self._of(module)

    def cut(self, name: str) -> Cut | None:
        """None where an output depends on inputs through another module or a memory."""
        module, depends = self._modules[name], self.inputs_of(name)
        outputs = [p.name for p in module.ports if p.output]
        by_child = {wire for wires in self._driven(module).values() for wire in wires}
        state, assigned, statements = set[str](), set[str](), set[str]()
        open_names = set[str]()
        for output in outputs:
            (open_names if depends[output] else state).add(output)
        while open_names:
            wire = open_names.pop()
            assigned.add(wire)
            if wire in by_child or wire not in module.assigned:
                return None
            for assignment in module.assigned[wire]:
                statements.add(assignment.text)
                open_names |= assignment.to - assigned
                for source in assignment.of - assigned - module.inputs:
                    if source in module.memories:
                        return None
                    (open_names if depends[source] else state).add(source)
        state -= assigned
        return Cut(
            tuple(module.wires[wire] for wire in sorted(state)),
            tuple(sorted(statements)),  # the same text in every process, for the cache
            tuple(module.wires[wire] for wire in sorted(assigned - set(outputs))),
        )

    def _driven(self, module: Module) -> dict[int, frozenset[str]]:
        """Wires that each instance gives, by the number of the instance."""
        found = {}
        for number, child in enumerate(module.children):
            inner = self._modules.get(child.module)
            outputs = {p.name for p in inner.ports if p.output} if inner else set()
            found[number] = frozenset(
                name for port, names in child.ports.items() if port in outputs for name in names
            )
        return found

    def _find(self, name: str) -> dict[str, frozenset[str]]:
        module = self._modules[name]
        before: dict[str, set[str]] = {}  # wires that each wire follows from at once
        for assignment in module.assignments:
            for to in assignment.to:
                before.setdefault(to, set()).update(assignment.of)
        for child in module.children:
            if child.module not in self._modules:
                continue
            inner = self.inputs_of(child.module)
            for port in self._modules[child.module].ports:
                if not port.output:
                    continue
                sources = {n for i in inner[port.name] for n in child.ports.get(i, ())}
                for to in child.ports.get(port.name, ()):
                    before.setdefault(to, set()).update(sources)
        after: dict[str, set[str]] = {}
        for to, sources in before.items():
            for source in sources:
                after.setdefault(source, set()).add(to)
        found: dict[str, set[str]] = {wire: set() for wire in (*module.wires, *module.memories)}
        for wire in module.inputs:
            reached, open_names = {wire}, [wire]
            while open_names:
                for to in after.get(open_names.pop(), ()):
                    if to not in reached:
                        reached.add(to)
                        open_names.append(to)
            for to in reached:
                found.setdefault(to, set()).add(wire)
        return {wire: frozenset(names) for wire, names in found.items()}
