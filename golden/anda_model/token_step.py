"""A single token through all layers: the program of a step."""

from tilewright.golden.anda_machine.attention_writer import AttentionWriter, Cached, Query, Room
from tilewright.golden.anda_machine.builder import Builder, Operand, Scalar, Tensor
from tilewright.golden.anda_machine.isa import groups_of
from tilewright.golden.anda_model.lines import Lines
from tilewright.golden.anda_model.plan import (
    BANK_INDEX,
    CACHE_INDEX,
    LAYER_INDEX,
    MATRICES,
    Matrix,
    Plan,
)
from tilewright.golden.harmonia_model.writer import NORM_SHARE
from tilewright.golden.params.anda_machine import Memory, Opcode, group_rows
from tilewright.golden.params.machine import Kind
from tilewright.golden.params.vector import Operation

__all__ = ["TokenStep", "Writer"]

_NORM = Scalar(7)


class Writer(Builder):
    """Writes programs of one model; its memory is not used, lines are those of the image.

    ``unrolled`` is the number of the layer that is written, where there is no loop over them.
    """

    def __init__(self, plan: Plan, lines: Lines):
        super().__init__(plan.params)
        self.plan, self.lines = plan, lines
        self.unrolled: int | None = None
        # Rows that vector instructions take a bank's own of: that of bank 0, behind it of bank 1...
        self.by_bank: tuple[range, ...] = ()
        self.bank: int | None = None  # whose they take; None: index register 3 says it

    def emit(self, opcode: Opcode, **fields: int) -> None:
        if opcode is Opcode.VECTOR and self.by_bank:
            for name in ("a", "b"):
                if fields[f"{name}_kind"] != Kind.TENSOR:
                    continue
                if not any(fields[name] in rows for rows in self.by_bank):
                    continue
                if self.bank is None:
                    fields[f"{name}_index"] = BANK_INDEX
                else:
                    fields[name] += self.bank
        super().emit(opcode, **fields)

    def move(
        self, opcode: Opcode, memory: Memory, row: int, rows: int, line: int, index: int = 0
    ) -> None:
        """Rows of a layer, or of its cache, as ``index`` says."""
        if index and self.unrolled is not None:
            each = self.lines.layer if index == LAYER_INDEX else self.lines.cache
            line, index = line + self.unrolled * each, 0
        self.emit(
            opcode, memory=int(memory), stride=1, row=row, rows=rows, line=line, line_index=index
        )

    def bring(self, memory: Memory, row: int, rows: int, line: int, index: int = 0) -> None:
        self.move(Opcode.LOAD, memory, row, rows, line, index)

    def keep(self, row: int, rows: int, line: int, index: int = 0) -> None:
        self.move(Opcode.STORE, Memory.ACTIVATIONS, row, rows, line, index)

    def norm(self, source: int, gain: int, into: int, elements: int) -> None:
        """Write a root mean square norm; the gain's row holds it times the root of NORM_SHARE."""
        x, y = Tensor(source, elements), Tensor(into, elements)
        self.apply(Operation.DOT, x, x, into=_NORM, scale=NORM_SHARE / elements)
        self.apply(Operation.ADD, _NORM, self.plan.config.norm_eps * NORM_SHARE, into=_NORM)
        self.apply(Operation.RECIPROCAL_ROOT, _NORM, into=_NORM)
        self.apply(Operation.MULTIPLY, x, _NORM, into=y)
        self.apply(Operation.MULTIPLY, y, Tensor(gain, elements), into=y)

    def compressed(self, source: int, matrix: Matrix, into: int) -> None:
        """Activations of a product; for weights of 8 bits twice, one copy behind the other."""
        self.configure(matrix.mantissa, matrix.mantissa)
        rows = groups_of(self.params, matrix.inputs) * group_rows(matrix.mantissa)
        for copy in range(matrix.copies):
            self.emit(
                Opcode.COMPRESS,
                source=source,
                destination=into + copy * rows,
                elements=matrix.inputs,
            )

    def bring_part(self, matrix: Matrix, first: int, part: int, index: int = LAYER_INDEX) -> None:
        """Load a part into the half of its number; ``first`` is the matrix's line."""
        weights, scales = self.lines.part(matrix, part)
        half = part % 2
        # The longer load comes last, to run beside what follows.
        for memory, row, rows, line in (
            (Memory.SCALES, half * self.plan.half_scales, matrix.scales_of(part), scales),
            (Memory.WEIGHTS, half * self.plan.half_rows, matrix.rows_of(part), weights),
        ):
            if rows:
                self.bring(memory, row, rows, first + line, index)

    def multiply_part(self, matrix: Matrix, part: int, source: int, into: int) -> None:
        tiles = matrix.tiles_of(part)
        if not tiles:
            return
        outputs = min(
            tiles * matrix.columns, matrix.outputs - part * matrix.part_tiles * matrix.columns
        )
        self.configure(matrix.mantissa, 0)
        self.emit(
            Opcode.GEMM,
            source=source,
            weights=part % 2 * self.plan.half_rows,
            scales=part % 2 * self.plan.half_scales,
            destination=into,
            inputs=matrix.groups * self.params.group,
            outputs=outputs,
        )

    def product(self, name: str, source: int, into: int) -> None:
        """A layer's matrix times activations; its first part is there or on its way.

        The first part of the next matrix is brought beside the last.
        """
        matrix, first = self.plan.matrices[name], self.lines.matrices[name]
        for part in range(matrix.parts):
            row = into + part * matrix.part_tiles * self.params.tile_rows
            self.multiply_part(matrix, part, source, row)
            if part + 1 < matrix.parts:
                self.bring_part(matrix, first, part + 1)
                continue
            number = MATRICES.index(name) + 1
            if number < len(MATRICES):
                following = MATRICES[number]
                self.bring_part(self.plan.matrices[following], self.lines.matrices[following], 0)
            else:  # behind the last layer this is the head, of which nothing is used
                line = self.lines.layer + self.lines.matrices["qkv"]
                self.bring_part(self.plan.matrices["qkv"], line, 0)


class TokenStep:
    """Writes the step of one token."""

    def __init__(self, plan: Plan, lines: Lines, token: int):
        self.plan, self.lines, self.writer = plan, lines, Writer(plan, lines)
        self.token, self.config = token, plan.config
        self.parts: dict[str, int] = {}

    def write(self, layers: int) -> None:
        b, plan, lines = self.writer, self.plan, self.lines
        self._enter()
        b.bring_part(plan.matrices["qkv"], lines.matrices["qkv"], 0, 0)
        before, b.program = b.program, []
        self._layer()
        body, b.program = b.program, before
        if len(body) <= plan.params.longest_loop:
            strides = {"stride1": lines.layer, "stride2": lines.cache, "stride3": 0}
            b.emit(Opcode.LOOP, count=layers, body=len(body), **strides)
            self.parts = {name: len(before) + number for name, number in self.parts.items()}
            b.program += body
        else:
            self.parts = {name: len(before) + number for name, number in self.parts.items()}
            for layer in range(layers):
                b.unrolled = layer
                self._layer()
            b.unrolled = None
            self.parts["period"] = (len(b.program) - self.parts["projections"]) // layers
        self.parts["end"] = len(b.program)
        b.keep(plan.tokens_row, plan.width_rows, lines.leaving)
        b.emit(Opcode.HALT)

    def _enter(self) -> None:
        """Bring the token's vector: the first instruction, in which the host names the token."""
        plan = self.plan
        self.writer.bring(
            Memory.BROADCAST, plan.tokens_row, plan.width_rows, self.lines.embedding(0)
        )

    def _layer(self) -> None:
        b = self.writer
        b._formats = None  # a loop's body begins with what its end left
        for name, part in (
            ("projections", self._project),
            ("attention", self._attend),
            ("feed-forward", self._feed),
        ):
            self.parts.setdefault(name, len(b.program))
            part()

    # Queries, keys and values.

    def _project(self) -> None:
        b, plan, c = self.writer, self.plan, self.config
        rotation = 3 * plan.tensor_rows(plan.rotated)
        gain = rotation
        normed = gain + plan.width_rows
        planes = normed + plan.width_rows
        b.bring(Memory.BROADCAST, gain, plan.width_rows, self.lines.norms[0], LAYER_INDEX)
        b.norm(plan.tokens_row, gain, normed, c.hidden_size)
        self._bring_rotation(rotation)
        b.compressed(normed, plan.matrices["qkv"], planes)
        b.product("qkv", planes, plan.projections_row)
        if c.query_bias:
            count = plan.rotated + plan.keys
            rows, line = plan.tensor_rows(count), self.lines.bias
            b.bring(Memory.BROADCAST, rotation, rows, line, LAYER_INDEX)
            results = Tensor(plan.projections_row, count)
            b.apply(Operation.ADD, results, Tensor(rotation, count), into=results)
        self._rotate(rotation)

    def _bring_rotation(self, rows: int) -> None:
        self.writer.bring(Memory.BROADCAST, 0, rows, self.lines.rotation(self.token))

    def _rotate(self, spare: int) -> None:
        """Every channel by its cosine, and the channel half a head away by its sine.

        The rows before the queries are the token's and those behind the keys are values: both are
        finite, and meet zeros of the tables.
        """
        b, plan = self.writer, self.plan
        rows, half = plan.tensor_rows(plan.rotated), plan.head_words // 2
        x, y = plan.projections_row, Tensor(plan.rotated_row, plan.rotated)
        other = Tensor(spare, plan.rotated)

        def times(shift: int, table: int, into: Tensor) -> None:
            a = Tensor(x + shift, plan.rotated)
            b.apply(Operation.MULTIPLY, a, Tensor(table * rows, plan.rotated), into=into)

        times(0, 0, y)
        for shift, table in ((half, 1), (-half, 2)):
            times(shift, table, other)
            b.apply(Operation.ADD, y, other, into=y)

    # The cache and attention.

    def _attend(self) -> None:
        self._append()
        plan = self.plan
        self._attend_heads(plan.room, plan.rotated_row, 1, plan.attended_row)

    def _attend_heads(self, room: Room, row: int, step: int, result: int) -> None:
        """Attention of all heads of one token, whose queries have ``step`` rows between words."""
        b, plan, c, lines = self.writer, self.plan, self.config, self.lines
        base = lines.caches
        index = CACHE_INDEX
        if b.unrolled is not None:
            base, index = base + b.unrolled * lines.cache, 0
        attention = AttentionWriter(b, room, lines.constants, lines.scratch, index=index)
        share = c.num_attention_heads // c.num_key_value_heads
        for head in range(c.num_key_value_heads):
            queries = [
                Query(
                    row + k * step * plan.head_words,
                    step,
                    self.token + 1,
                    result + k * plan.head_words,
                )
                for k in range(head * share, (head + 1) * share)
            ]
            keys, values = lines.cached(head)
            attention.attend(Cached(base + keys, base + values), queries, scale=c.head_dim**-0.5)
        attention.flush()

    @property
    def _new(self) -> dict[str, int]:
        """Rows of the keys and values that go to the cache."""
        plan = self.plan
        return {
            "keys": plan.rotated_row + self.config.num_attention_heads * plan.head_words,
            "values": plan.projections_row + plan.words(plan.rotated),
        }

    def _places(self, name: str) -> list[int]:
        """Lines of the token's tile, of every head's keys or values."""
        lines = self.lines
        tile = self.token // self.plan.params.rows
        return [
            lines.caches + getattr(lines.cached(head), name) + tile * lines.tile
            for head in range(self.config.num_key_value_heads)
        ]

    def _append(self) -> None:
        """The token's keys and values into their bank of the last tile."""
        b, plan, p = self.writer, self.plan, self.plan.params
        bank = self.token % p.rows
        rows = plan.tensor_rows(plan.keys)
        heads = range(self.config.num_key_value_heads)
        own, ones = Scalar(6), 4 * rows
        b.bring(Memory.ACTIVATIONS, ones, 1 + p.rows, self.lines.constants)
        b.apply(Operation.LARGEST, Tensor(ones + 1 + bank, 1), into=own)
        for number, (name, row) in enumerate(self._new.items()):
            here, old = 2 * number * rows, (2 * number + 1) * rows
            places = self._places(name)
            if bank:
                for head, line in zip(heads, places, strict=True):
                    b.bring(
                        *(Memory.ACTIVATIONS, old + head * plan.head_words, plan.head_words, line),
                        CACHE_INDEX,
                    )
            kept = Tensor(here, plan.keys)
            b.apply(Operation.MULTIPLY, Tensor(row, plan.keys), own, into=kept)
            if bank:
                b.apply(Operation.ADD, kept, Tensor(old, plan.keys), into=kept)
            for head, line in zip(heads, places, strict=True):
                b.keep(here + head * plan.head_words, plan.head_words, line, CACHE_INDEX)

    # The output projection and the feed-forward part.

    def _feed(self) -> None:
        b, plan, c = self.writer, self.plan, self.config
        width, inner = c.hidden_size, c.intermediate_size
        gain, normed = 0, plan.width_rows
        planes = 2 * plan.width_rows
        front = max(planes + plan.planes(plan.matrices["gate"]), plan.planes(plan.matrices["down"]))
        gate, up, spare = (front + k * plan.inner_rows for k in range(3))
        tokens = Tensor(plan.tokens_row, width)

        b.compressed(plan.attended_row, plan.matrices["output"], 0)
        result = plan.region
        b.product("output", 0, result)
        b.apply(Operation.ADD, tokens, Tensor(result, width), into=tokens)
        b.bring(Memory.BROADCAST, gain, plan.width_rows, self.lines.norms[1], LAYER_INDEX)
        b.norm(plan.tokens_row, gain, normed, width)
        b.compressed(normed, plan.matrices["gate"], planes)
        b.product("gate", planes, gate)
        b.product("up", planes, up)
        self._activate(Tensor(gate, inner), Tensor(up, inner), Tensor(spare, inner))
        b.compressed(gate, plan.matrices["down"], 0)
        b.product("down", 0, spare)
        b.apply(Operation.ADD, tokens, Tensor(spare, width), into=tokens)

    def _activate(self, gate: Tensor, up: Tensor, spare: Tensor) -> None:
        """SiLU(gate) times up, in place of the gate."""
        steps: list[tuple[Operation, Tensor, Operand, Tensor]] = [
            (Operation.MULTIPLY, gate, -1.0, spare),
            (Operation.EXPONENTIAL, spare, 0.0, spare),
            (Operation.ADD, spare, 1.0, spare),
            (Operation.RECIPROCAL, spare, 0.0, spare),
            (Operation.MULTIPLY, gate, spare, gate),
            (Operation.MULTIPLY, gate, up, gate),
        ]
        for operation, a, other, into in steps:
            self.writer.apply(operation, a, other, into=into)
