"""A layout for other timing tools: its netlist as Verilog, and its wires as SPEF."""

from collections.abc import Iterator

from tilewright.synth.netlist import Net
from tilewright.synth.place.layout import Layout

__all__ = ["placed_verilog", "spef"]


def _wire(net: Net) -> str:
    return f"n{net}" if isinstance(net, int) else f"1'b{0 if net == 'x' else net}"


def _ports(layout: Layout) -> Iterator[tuple[str, str, Net]]:
    """Name, direction and net of every bit of a port, each a port of its own."""
    netlist = layout.netlist
    for way, ports in (("input", netlist.inputs), ("output", netlist.outputs)):
        for name, nets in ports.items():
            for bit, net in enumerate(nets):
                yield (f"{name}_{bit}" if len(nets) > 1 else name), way, net


def placed_verilog(layout: Layout) -> str:
    """The netlist after repair: instances ``u0``, ``u1``, ... and ports of one bit each."""
    ports = list(_ports(layout))
    nets = sorted(
        {n for i in layout.netlist.instances for n in i.pins.values() if isinstance(n, int)}
        | {n for _, _, n in ports if isinstance(n, int)}
    )
    lines = [f"module {layout.netlist.name}({', '.join(name for name, _, _ in ports)});"]
    lines += [f"  {way} {name};" for name, way, _ in ports]
    lines += [f"  wire n{net};" for net in nets]
    for name, way, net in ports:
        if way == "input":
            lines.append(f"  assign {_wire(net)} = {name};")
        else:
            lines.append(f"  assign {name} = {_wire(net)};")
    for k, instance in enumerate(layout.netlist.instances):
        pins = ", ".join(f".{pin}({_wire(net)})" for pin, net in instance.pins.items())
        lines.append(f"  {instance.cell.name} u{k}({pins});")
    return "\n".join([*lines, "endmodule", ""])


def spef(layout: Layout) -> str:
    """Resistance and capacitance of every net's tree, a node for each of its points."""
    rules = layout.rules
    count = layout.wiring.instances
    names = [name for name, _, _ in _ports(layout)]
    pins: dict[tuple[Net, int], list[tuple[str, str]]] = {}
    for k, instance in enumerate(layout.netlist.instances):
        for pin, net in instance.pins.items():
            way = "O" if pin in instance.cell.outputs else "I"
            pins.setdefault((net, k), []).append((f"u{k}:{pin}", way))
    lines = [
        '*SPEF "IEEE 1481-1998"',
        f'*DESIGN "{layout.netlist.name}"',
        '*DATE ""',
        '*VENDOR "tilewright"',
        '*PROGRAM "tilewright place"',
        '*VERSION ""',
        '*DESIGN_FLOW ""',
        "*DIVIDER /",
        "*DELIMITER :",
        "*BUS_DELIMITER []",
        "*T_UNIT 1 PS",
        "*C_UNIT 1 FF",
        "*R_UNIT 1 OHM",
        "*L_UNIT 1 HENRY",
        "",
    ]
    for net, tree in layout.wires.trees.items():
        total = layout.wires.capacitance[net]
        lines += [f"*D_NET n{net} {total:.6g}", "*CONN"]
        points = [tree[0].source, *(branch.target for branch in tree)]
        caps = dict.fromkeys(points, 0.0)
        for branch in tree:
            for end in (branch.source, branch.target):
                caps[end] += rules.ff_per_um * branch.length / 2
        node: dict[int, str] = {}
        joined: list[tuple[str, str]] = []  # further pins of a cell at the same place
        for point in points:
            if point >= count:
                name = names[point - count]
                way = "I" if point == tree[0].source else "O"
                lines.append(f"*P {name} {way}")
                node[point] = name
            else:
                own = pins[net, point]
                lines += [f"*I {name} {way}" for name, way in own]
                driver = next((name for name, way in own if way == "O"), own[0][0])
                node[point] = driver
                joined += [(driver, name) for name, _ in own if name != driver]
        lines.append("*CAP")
        lines += [f"{k} {node[p]} {caps[p]:.6g}" for k, p in enumerate(points, 1)]
        lines.append("*RES")
        ohms = [(node[b.source], node[b.target], rules.ohm_per_um * b.length) for b in tree]
        ohms += [(a, b, 0.0) for a, b in joined]
        lines += [f"{k} {a} {b} {max(r, 1e-3):.6g}" for k, (a, b, r) in enumerate(ohms, 1)]
        lines += ["*END", ""]
    return "\n".join(lines)
