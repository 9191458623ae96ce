"""Wrong instructions of Harmonia, and ones that are right by a row."""

from tilewright.golden.harmonia_machine.isa import Instruction, assemble
from tilewright.golden.params.harmonia_machine import COUNT_FIELD, HarmoniaParams, Memory, Operand
from tilewright.golden.params.machine import SCALARS
from tilewright.verify.machine.wrong import BAD_LINE, LINES, Programs, settings, stopping_programs
from tilewright.verify.machine.wrong import move as _move


def wrong_programs(params: HarmoniaParams) -> Programs:
    """Programs by what is wrong with them."""
    p, bad, last = params, BAD_LINE, params.activation_rows - 1
    halves, operands = p.halves_rows, p.operand_rows
    keys, values = (p.low_slots(operand) for operand in (Operand.KEYS, Operand.VALUES))
    words = p.converter.loops  # rows of one word of every token tile of a group of values
    groups = (1 << COUNT_FIELD) - 1
    table = f"""
load beyond the mantissas      | address | {_move("mantissas", last, 2)}
load beyond the fp16 memory    | address | {_move("fp16", halves, 1)}
load beyond the operands       | address | {_move("operands", operands - 1, 2)}
load beyond the scales         | address | {_move("scales", operands, 1)}
load spread from no bank       | operand | {_move("fp16", 0, 1)}, spread={p.rows + 1}
load of scales that are spread | operand | {_move("scales", 0, 1)}, spread=1
load of no rows                | size    | {_move("signs", 0, 0)}
store of scales                | operand | {_move("scales", 0, 1, "store")}
store beyond the exponents     | address | {_move("exponents", last + 1, 1, "store")}
gemm without groups            | size    | {_gemm("weights", groups=0)}
gemm without tiles             | size    | {_gemm("keys", tiles=0)}
gemm without token tiles       | size    | {_gemm("values", token_tiles=0)}
gemm with too many maxima      | size    | {_gemm("weights", token_tiles=SCALARS + 1, maxima=1)}
gemm beyond its source         | address | {_gemm("weights", source=last + 1)}
gemm beyond its source, two tiles | address | {_gemm("weights", source=last, token_tiles=2)}
gemm beyond its result         | address | {_gemm("weights", destination=halves - p.tile_words + 1)}
gemm beyond the operands       | address | {_gemm("keys", operands=operands)}
gemm beyond the metadata       | address | {_gemm("values", metadata=operands - 1, tiles=2)}
gemm beyond the low keys       | address | {_gemm("keys", low_halves=operands - keys + 1)}
gemm beyond the low keys, two groups | address | \
{_gemm("keys", low_halves=operands - 2 * keys + 1, groups=2)}
gemm beyond the low values     | address | \
{_gemm("values", low_halves=operands - 2 * values + 1, tiles=2)}
convert of nothing             | size    | {_convert("activations", elements=0)}
convert beyond its source      | address | {_convert("activations", source=halves)}
convert beyond the activations | address | {_convert("activations", destination=last + 1)}
keys beyond the operands       | address | {_convert("keys", destination=operands)}
keys beyond the low halves     | address | {_convert("keys", low_halves=operands)}
keys beyond the metadata       | address | {_convert("keys", metadata=operands)}
keys of too many channels      | address | {_convert("keys", elements=p.channels + 1)}
keys of a part that is none    | operand | {_convert("keys", part=p.parts)}
values of no tokens            | size    | {_convert("values", tokens=0)}
values of too many tokens      | size    | {_convert("values", tokens=p.group + 1)}
values beyond their source     | address | {_convert("values", source=halves - words + 1, tokens=1)}
values beyond the operands     | address | \
{_convert("values", destination=operands - 1, elements=p.columns + 1, tokens=1)}
learn of nothing               | size    | learn source=0, elements=0, first=1
learn beyond its source        | address | learn source={halves}, elements=1
learn of too many channels     | address | learn source=0, elements={p.channels + 1}
clear of nothing               | size    | clear low_halves=0, rows=0
clear beyond the operands      | address | clear low_halves={operands - 1}, rows=2
clear of a part that is none   | operand | clear low_halves=0, rows=1, part={p.parts}
add beyond a                   | address | add r0, r{halves}, #1, elements=1
add beyond b                   | address | add r0, r0, r{halves - 1}, elements=5
add beyond its result          | address | add r{halves}, r0, #1, elements=1
bad line while all units work  | bus     | {_move("operands", 0, 64, line=bad)} / \
exponential r{halves // 2}, r{halves // 2}, elements=64 / \
{_convert("activations", source=halves - 16, elements=64)} / \
{_gemm("weights", source=last, operands=operands - p.row_groups, metadata=1024)} / \
{_move("fp16", halves // 2, 4, "store", line=20)}
"""
    each = p.row_groups
    if each > 1:
        table += f"""\
tiled gemm with row groups     | opcode  | {_tiled_gemm()}
shared gemm with maxima        | operand | {_gemm("shared", tiles=p.row_groups, maxima=1)}
shared gemm of part of a block | size    | {_gemm("shared", tiles=p.row_groups + 1)}
shared gemm, open, of two blocks | size  | {_gemm("shared", tiles=2 * p.row_groups, register=1)}
shared gemm, open, of two tiles | size | {_gemm("shared", tiles=each, token_tiles=2, register=1)}
shared gemm between blocks     | address | {_gemm("shared", tiles=p.row_groups, operands=1)}
shared gemm of scales between blocks | address | {_gemm("shared", tiles=p.row_groups, metadata=1)}
gemm beyond the last block     | address | {_gemm("weights", operands=operands - 1)}
"""
    else:
        table += f"""\
tiled gemm that keeps nothing  | size    | {_tiled_gemm(keep=0)}
tiled gemm without groups      | size    | {_tiled_gemm(groups=0)}
tiled gemm from bad lines      | bus     | {_tiled_gemm(source=LINES)}
"""
    if groups > operands and p.row_groups == 1:
        table += f"tiled gemm of too many groups | address | {_tiled_gemm(groups=groups)}\n"
    (gemm,), (convert,) = assemble(_gemm("keys")), assemble(_convert("keys"))
    changed = {"conversion 3": (convert, "conversion", 3)}
    if p.row_groups == 1:
        changed["operand 3"] = (gemm, "operand", 3)
    return stopping_programs(params, table, changed, "configure lanes=1")


def _gemm(operand: str, **changes: int) -> str:
    fields = dict.fromkeys(("source", "operands", "low_halves", "metadata", "destination"), 0)
    return f"gemm {operand}, {settings(fields | {'groups': 1, 'tiles': 1} | changes)}"


def _convert(conversion: str, **changes: int) -> str:
    fields = {"source": 0, "elements": 1, "destination": 0, "low_halves": 8, "metadata": 0}
    return f"convert {conversion}, {settings(fields | changes)}"


def _tiled_gemm(**changes: int) -> str:
    fields = {"source": 0, "weights": 8, "destination": 16}
    sizes = dict.fromkeys(("groups", "tiles", "token_tiles", "keep"), 1)
    return f"tiled_gemm {settings(fields | sizes | changes)}"


def last_rows(params: HarmoniaParams) -> list[Instruction]:
    """Instructions whose ranges end exactly where the memories do."""
    p = params
    activations, halves, operands = p.activation_rows, p.halves_rows, p.operand_rows - 1
    keys, values = (operands + 1 - p.low_slots(k) for k in (Operand.KEYS, Operand.VALUES))
    ends = [(memory, memory.name.lower(), p.depth(memory) - 1) for memory in Memory]
    loads = [_move(name, row, 1) for _, name, row in ends]
    stores = [_move(n, row, 1, "store", 32 + 4 * m) for m, n, row in ends if m.stores]
    last = {"metadata": operands, "source": activations - 1, "operands": operands}
    block = dict.fromkeys(("operands", "metadata"), operands + 1 - p.row_groups)
    text = f"""
wait
{_gemm("weights", destination=halves - p.tile_words, **last | block)}
{_gemm("keys", low_halves=keys, **last)}
{_gemm("values", low_halves=values, **last)}
{_convert("activations", source=halves - 1, destination=activations - 1)}
{_convert("keys", low_halves=operands, part=p.parts - 1)}
{_convert("keys", destination=operands, metadata=operands, low_halves=operands - 1)}
{_convert("values", source=halves - p.converter.loops, tokens=p.group)}
learn source={halves - 1}, elements=1, first=1, last=1
clear low_halves={operands}, rows=1
add r0, r{halves - 1}, r{halves - 2}, elements=1
add r{halves - 1}, r0, #1, elements=1
sum s7, r{halves - 1}, elements=4
add s7, s7, s7"""
    return assemble("\n".join([*loads, text, *stores, "halt"]))
