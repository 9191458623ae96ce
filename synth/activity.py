"""Toggle counts of every net of a mapped netlist on a workload.

The netlist is evaluated cell by cell without delays: there are no glitches. A net's value is an
integer with one bit per stream, so many streams of data are simulated at once.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.synth.function import parse_function
from tilewright.synth.memory import parse_macro
from tilewright.synth.netlist import Instance, Net, Netlist, gate_of_each, in_signal_order
from tilewright.synth.technology import State

Beat = Sequence[int]  # one integer per payload bit, lowest first; one bit per stream
RESET_CYCLES = 2
DRAIN, PATIENCE = 64, 1000  # cycles without a beat taken or given: that end a run, or fail it


class UnsupportedCellError(ValueError):
    """A cell whose state this simulation does not model."""


@dataclass(frozen=True)
class Activity:
    """Counts of a simulation."""

    streams: int
    cycles: int  # one stream's
    toggles: dict[Net, int]  # all streams'
    results: dict[str, list[Beat]]  # every beat of every output port, counted or not
    # Reads and writes of each memory macro over all streams; a partial write counts in part.
    accesses: dict[str, tuple[float, float]] = field(default_factory=dict)
    # Clock pulses that each clock gate passed, over all streams.
    pulses: dict[str, int] = field(default_factory=dict)


class Simulator:
    """Cycle-by-cycle simulator of a netlist with toggle counters; all state starts at 0."""

    def __init__(self, netlist: Netlist, streams: int = 1):
        self.netlist, self.streams = netlist, streams
        self.ones = (1 << streams) - 1
        self._program = _Program(netlist)
        self._machine = self._program.run(self.ones)
        next(self._machine)

    def counters(self) -> list[int]:
        """Fresh zero counters for :meth:`step`."""
        return [0] * self._program.counters

    def step(self, values: Mapping[str, Sequence[int]], counters: list[int]) -> dict[str, Beat]:
        """Run one cycle with the input ports at ``values``; return the output ports'."""
        return self._machine.send((self._program.flat(values), counters))

    def activity(
        self, counters: list[int], cycles: int, results: dict[str, list[Beat]] | None = None
    ) -> Activity:
        """Activity from ``counters`` after ``cycles`` cycles."""
        nets = self._program.nets
        toggles = dict(zip(nets, counters[: len(nets)], strict=True))
        accesses, pulses = self._program.accesses(counters), self._program.pulses(counters)
        return Activity(self.streams, cycles, toggles, results or {}, accesses, pulses)


def measure(
    netlist: Netlist, streams: int, inputs: Mapping[str, Sequence[Beat]], counted: range
) -> Activity:
    """Simulate ``inputs`` (port to beats), counting while the first port is at ``counted``.

    Streams run in step, so no handshake may depend on data; outputs are always ready.
    """
    simulator = Simulator(netlist, streams)
    ones = simulator.ones
    counters, ignored = simulator.counters(), simulator.counters()
    position = dict.fromkeys(inputs, 0)
    first = next(iter(inputs))
    givers = [p.removesuffix("__valid") for p in netlist.outputs if p.endswith("__valid")]
    results: dict[str, list[Beat]] = {port: [] for port in givers}
    for _ in range(RESET_CYCLES):
        simulator.step(_quiet(netlist, inputs, rst=ones), ignored)
    cycles = idle = 0
    while idle < DRAIN or any(position[p] < len(inputs[p]) for p in inputs):
        values = _quiet(netlist, inputs, rst=0)
        for port, beats in inputs.items():
            if position[port] < len(beats):
                values[f"{port}__valid"] = [ones]
                values[f"{port}__payload"] = beats[position[port]]
        for port in givers:
            values[f"{port}__ready"] = [ones]
        counting = position[first] in counted
        cycles += counting
        out = simulator.step(values, counters if counting else ignored)
        idle += 1
        for port in inputs:
            if (
                _uniform(port, "ready", out[f"{port}__ready"][0], ones)
                and values[f"{port}__valid"][0]
            ):
                position[port] += 1
                idle = 0
        for port in givers:
            if _uniform(port, "valid", out[f"{port}__valid"][0], ones):
                results[port].append(out[f"{port}__payload"])
                idle = 0
        if idle > PATIENCE:
            taken = ", ".join(f"{p}: {position[p]} of {len(inputs[p])}" for p in inputs)
            raise RuntimeError(f"{netlist.name} stands still; beats taken: {taken}")
    return simulator.activity(counters, cycles, results)


def _quiet(
    netlist: Netlist, inputs: Mapping[str, Sequence[Beat]], rst: int
) -> dict[str, Sequence[int]]:
    values: dict[str, Sequence[int]] = {p: [0] * len(nets) for p, nets in netlist.inputs.items()}
    return values | {f"{p}__payload": beats[-1] for p, beats in inputs.items()} | {"rst": [rst]}


def _uniform(port: str, wire: str, value: int, ones: int) -> bool:
    if value not in (0, ones):
        raise ValueError(f"port {port}: {wire} differs between streams")
    return bool(value)


class _Program:
    """The netlist as Python: a generator that maps a cycle's inputs to its outputs."""

    def __init__(self, netlist: Netlist):
        self.netlist = netlist
        self.nets: list[Net] = []  # in the order of their counters
        self.inputs = [
            (port, k, net)
            for port, nets in netlist.inputs.items()
            for k, net in enumerate(nets)
            if port != "clk" and isinstance(net, int)
        ]
        self.registers = [_flip_flop(i) for i in netlist.registers]
        self.memories = [
            (i, parse_macro(i.cell.name)) for i in netlist.instances if i.cell.memory_bits
        ]
        # Indices of the registers on each gate, and of the ungated ones.
        self.gates = {gate.name: (gate, list[int]()) for gate in netlist.clock_gates.values()}
        self.ungated: list[int] = []
        for k, gate in enumerate(gate_of_each(netlist, netlist.registers)):
            (self.ungated if gate is None else self.gates[gate.name][1]).append(k)

    @property
    def counters(self) -> int:
        """Number of counters: one per net and clock gate, two per memory (reads, parts written)."""
        return len(self.nets) + 2 * len(self.memories) + len(self.gates)

    def accesses(self, counters: list[int]) -> dict[str, tuple[float, float]]:
        first = len(self.nets)
        return {
            instance.name: (
                counters[first + 2 * k],
                counters[first + 2 * k + 1] * macro.granularity / macro.width,
            )
            for k, (instance, macro) in enumerate(self.memories)
        }

    def pulses(self, counters: list[int]) -> dict[str, int]:
        return dict(zip(self.gates, counters[len(counters) - len(self.gates) :], strict=True))

    def flat(self, values: Mapping[str, Sequence[int]]) -> list[int]:
        """One integer per input net."""
        return [values[port][k] for port, k, _ in self.inputs]

    def run(self, ones: int) -> Generator[dict[str, Beat], tuple[list[int], list[int]], None]:
        scope: dict = {"access": _access}
        exec(compile(self._source(), f"<{self.netlist.name}>", "exec"), scope)
        return scope["run"](ones)

    def _source(self) -> str:
        body: list[str] = []
        for k, (_, _, net) in enumerate(self.inputs):
            body += self._update(net, f"x[{k}]")
        for k, (instance, state) in enumerate(self.registers):
            body += self._outputs(instance, _state_names(k, state))
        for k, (instance, macro) in enumerate(self.memories):
            for bit in range(macro.width):
                read = instance.pins.get(f"read_data[{bit}]")
                if isinstance(read, int):
                    body += self._update(read, f"m{k}[1][{bit}]")
        for instance in in_signal_order(self.netlist):
            body += self._outputs(instance, {})
        outputs = ", ".join(
            f"{port!r}: [{', '.join(map(_name, nets))}]"
            for port, nets in self.netlist.outputs.items()
        )
        # A next state depends on nets and the state itself, so states may update one by one.
        following = [
            _expression(state.data, instance, _state_names(k, state))
            for k, (instance, state) in enumerate(self.registers)
        ]
        moves = [f"s{k} = {following[k]}" for k in self.ungated]
        for place, (gate, behind) in enumerate(
            self.gates.values(), self.counters - len(self.gates)
        ):
            moves += [
                f"e = {_enable(gate)}",
                "if e:",
                f"  count[{place}] += e.bit_count()",
                *(f"  s{k} ^= (s{k} ^ ({following[k]})) & e" for k in behind),
            ]
        for k, (instance, macro) in enumerate(self.memories):
            pins = [
                f"[{', '.join(_name(instance.pins[f'{port}[{b}]']) for b in range(bits))}]"
                for port, bits in macro.inputs.items()
            ]
            ports = ", ".join(f"{port}={bus}" for port, bus in zip(macro.inputs, pins, strict=True))
            place = len(self.nets) + 2 * k
            moves.append(f"access(m{k}, ones, count, {place}, {macro.granularity}, {ports})")
        start = [f"{_name(net)} = 0" for net in self.nets]
        start += [
            f"m{k} = [[0] * {macro.width} for _ in range({macro.depth})], [0] * {macro.width}"
            for k, (_, macro) in enumerate(self.memories)
        ]
        start += [f"s{k} = 0" for k in range(len(self.registers))]
        return "\n".join(
            [
                "def run(ones):",
                *(f"  {line}" for line in start),
                "  out = None",
                "  while True:",
                "    x, count = yield out",
                *(f"    {line}" for line in body),
                f"    out = {{{outputs}}}",
                *(f"    {line}" for line in moves),
            ]
        )

    def _outputs(self, instance: Instance, names: dict[str, str]) -> list[str]:
        lines = []
        for pin, function in instance.cell.outputs.items():
            net = instance.pins.get(pin)
            if isinstance(net, int):
                lines += self._update(net, _expression(function, instance, names))
        return lines

    def _update(self, net: Net, value: str) -> list[str]:
        name, place = _name(net), len(self.nets)
        self.nets.append(net)
        return [
            f"t = {value}",
            f"if t != {name}: count[{place}] += (t ^ {name}).bit_count(); {name} = t",
        ]


def _access(
    memory: tuple[list[list[int]], list[int]],
    ones: int,
    count: list[int],
    place: int,
    granularity: int,
    *,
    write_enable: list[int],
    write_address: list[int],
    write_data: list[int],
    read_enable: list[int],
    read_address: list[int],
) -> None:
    """Clock edge of a macro; ``memory`` is words by address and the word last read."""
    words, last = memory
    (enable,) = read_enable
    count[place] += enable.bit_count()
    count[place + 1] += sum(part.bit_count() for part in write_enable)
    if enable:
        taken = [bit & ~enable for bit in last]
        for address, word in enumerate(words):
            chosen = _chosen(address, read_address, enable)
            if chosen:
                taken = [old | (bit & chosen) for old, bit in zip(taken, word, strict=True)]
        last[:] = taken
    for address, word in enumerate(words):
        chosen = _chosen(address, write_address, ones)
        for part, written in enumerate(write_enable):
            here = chosen & written
            if here:
                for k in range(part * granularity, (part + 1) * granularity):
                    word[k] = (word[k] & ~here) | (write_data[k] & here)


def _chosen(address: int, bits: list[int], streams: int) -> int:
    for k, bit in enumerate(bits):
        streams &= bit if address >> k & 1 else ~bit
    return streams


def _enable(gate: Instance) -> str:
    assert gate.cell.state is not None
    return _expression(gate.cell.state.data, gate, {})


def _flip_flop(instance: Instance) -> tuple[Instance, State]:
    cell, state = instance.cell, instance.cell.state
    if (
        state is None
        or state.latch
        or state.clear
        or state.preset
        or parse_function(state.clock).verilog != cell.clock_pin
    ):
        raise UnsupportedCellError(
            f"{cell.name}: only flip-flops on the rising edge, without set and clear, are simulated"
        )
    return instance, state


def _state_names(k: int, state: State) -> dict[str, str]:
    return {state.names[0]: f"s{k}", state.names[1]: f"(ones ^ s{k})"}


def _expression(function: str, instance: Instance, names: dict[str, str]) -> str:
    def operand(match: re.Match[str]) -> str:
        token = match[0]
        if token[0] == "1":
            return "ones" if token[-1] == "1" else "0"
        return names[token] if token in names else _name(instance.pins[token])

    text = re.sub(r"1'b[01]|[A-Za-z_]\w*", operand, parse_function(function).verilog)
    return f"({text}) & ones" if "~" in text else text  # the inverse of an integer is negative


def _name(net: Net) -> str:
    if isinstance(net, int):
        return f"n{net}"
    return "ones" if net == "1" else "0"
