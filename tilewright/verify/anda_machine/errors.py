"""Wrong instructions of Anda, and ones that are right by a row."""

from tilewright.golden.anda_machine.isa import Instruction, assemble
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.verify.machine.wrong import BAD_LINE, LINES, Programs, settings, stopping_programs


def wrong_programs(params: AndaParams) -> Programs:
    """Programs by what is wrong with them."""
    last, weights, scales = params.activation_rows, params.weight_rows, params.scale_rows
    table = f"""
mantissa of the source       | mantissa | configure source=17, result=0
mantissa of the result       | mantissa | configure source=16, result=31
load beyond the buffer       | address  | load activations, row={last - 1}, rows=2, line=0
load with a long stride      | address  | load exponents, row={last - 17}, rows=2, line=0, stride=17
load beyond the weights      | address  | load weights, row={weights}, rows=1, line=0
load beyond the scales       | address  | load scales, row={scales - 1}, rows=2, line=0
load of no rows              | size     | load activations, row=0, rows=0, line=0
load without stride          | size     | load activations, row=0, rows=1, line=0, stride=0
store of weights             | operand  | store weights, row=0, rows=1, line=0
gemm before configure        | mantissa | {_gemm()}
gemm without inputs          | size     | {_gemm(inputs=0)}
gemm without outputs         | size     | {_gemm(outputs=0)}
gemm beyond its source       | address  | {_gemm(6, source=last - 6)}
gemm beyond its result       | address  | {_gemm(6, destination=last - 15)}
gemm beyond the weights      | address  | {_gemm(6, weights=weights - 1)}
gemm beyond the scales       | address  | {_gemm(6, scales=scales)}
compress to fp16             | mantissa | compress source=0, destination=64, elements=1
compress of nothing          | size     | compress source=0, destination=64, elements=0
compress beyond its result   | address  | configure source=0, result=4 / \
compress source=0, destination={last - 4}, elements=1
add beyond a                 | address  | add r0, r{last - 15}, #1, elements=1
add beyond b                 | address  | add r0, r0, r{last - 15}, elements=1
add beyond its result        | address  | add r{last - 15}, r0, #1, elements=1
dots without results         | size     | {_attention("dots", results=0)}
dots without a step          | size     | {_attention("dots", step=0)}
weigh without a pitch        | size     | {_attention("weigh", pitch=0)}
weigh of nothing             | size     | {_attention("weigh", elements=0)}
dots of a scalar             | operand  | {_attention("dots", a="s0")}
weigh by a constant          | operand  | {_attention("weigh", b="#1")}
dots beyond a                | address  | {_attention("dots", a=f"r{last - 9}", results=3, pitch=5)}
dots beyond b                | address  | {_attention("dots", b=f"r{last - 1}", elements=17)}
dots beyond the results      | address  | {_attention("dots", to=f"r{last - 1}", results=9)}
weigh beyond a               | address  | {_attention("weigh", a=f"r{last - 6}", step=7)}
weigh beyond the results     | address  | {_attention("weigh", to=f"r{last - 1}", results=2)}
bad line while all units work | bus     | configure source=3, result=0 / \
load weights, row=0, rows=32, line={BAD_LINE} / \
exponential r{last // 2}, r{last // 2}, elements=16 / \
{_gemm(weights=weights - 16, scales=scales - params.block_tiles)} / \
store activations, row={last - 16}, rows=1, line=20
"""
    if params.row_groups > 1:
        block = params.block_tiles
        most = params.row_groups * params.columns
        table += f"""\
shared by too many tokens    | operand  | {_gemm(6, shared=1, span=params.spans[-1] + 1)}
sums of no gemm              | operand  | {_gemm(6, shared=1, continues=1)}
sums of another gemm         | operand  | {_gemm(6, shared=1, keeps=1)} / \
{_gemm(shared=1, outputs=2, continues=1)}
sums of a gemm that ended    | operand  | {_gemm(6, shared=1, keeps=1)} / {_gemm()} / \
{_gemm(shared=1, continues=1)}
sums of two passes           | size     | {_gemm(6, shared=1, outputs=most + 1, keeps=1)}
sums of two passes of tokens | size     | {_gemm(6, shared=1, span=1, outputs=most, keeps=1)}
shared before configure      | mantissa | {_gemm(shared=1)}
weights within a block       | address  | {_gemm(6, weights=block)}
scales within a block        | address  | {_gemm(6, shared=1, scales=1)}
shared beyond its result     | address  | {_gemm(6, shared=1, destination=last - 15)}
"""
        table += f"""\
weigh of banks beyond a      | address  | \
{_attention("weigh", a=f"r{last - 8}", results=9, across=1)}
dots of banks beyond a       | address  | {_attention("dots", a=f"r{last}", results=2, across=1)}
"""
    if params.beat_words > 1:
        table += f"""\
a within a beat              | address  | add r0, r2, #1, elements=1
b within a beat              | address  | add r0, r0, r2, elements=1
a result within a beat       | address  | add r2, r0, #1, elements=1
a sum within a beat          | address  | sum s0, r2, elements=1
dots of keys within a beat   | address  | {_attention("dots", a="r2")}
weigh to within a beat       | address  | {_attention("weigh", to="r2")}
compress from within a beat  | address  | configure source=0, result=4 / \
compress source=2, destination=64, elements=1
"""
    (load,) = assemble("load activations, row=0, rows=1, line=0")
    changed = {"memory 5": (load, "memory", 5)}
    return stopping_programs(params, table, changed, "configure source=1, result=1")


def _attention(name: str, a: str = "r0", b: str = "r0", to: str = "r64", **changes: int) -> str:
    """Dots or weigh with changed fields."""
    fields = {"elements": 2, "results": 1, "step": 1, "pitch": 1} | changes
    return f"{name} {to}, {a}, {b}, {settings(fields)}"


def _gemm(mantissa: int = 0, **changes: int) -> str:
    """A gemm, after ``configure`` for a mantissa."""
    fields = {"source": 0, "weights": 0, "scales": 0, "destination": 64, "inputs": 1, "outputs": 1}
    configure = f"configure source={mantissa}, result=0 / " if mantissa else ""
    name = "shared_gemm" if changes.pop("shared", 0) else "gemm"
    return f"{configure}{name} {settings(fields | changes)}"


def last_rows(params: AndaParams) -> list[Instruction]:
    """Instructions whose ranges end exactly where the memories do."""
    last, weights, scales = params.activation_rows, params.weight_rows, params.scale_rows
    block = params.block_tiles
    own = {"weights": weights - block * params.mxu.weight_beats, "scales": scales - block}
    own["destination"] = 0
    shared = ""
    if params.row_groups > 1:
        beyond = {"destination": params.activation_rows - 1}  # of no results
        shared = "\n".join(
            (
                _gemm(shared=1, source=last - 7, **own | beyond, keeps=1),
                _gemm(shared=1, **own | {"destination": last - 5}, continues=1) + "\n",
            )
        )
        ends = f"r{last - params.beat_words}"
        shared += f"""{_attention("weigh", a=ends, elements=3, step=9, across=1)}
{_attention("dots", a=ends, results=3, pitch=9, across=1)}
"""
    # Its source would make the second compress, were it a vector instruction, an operation on
    # tensors; the third one would take turns in one region.
    return assemble(f"""
configure source=6, result=4
load activations, row={last - 2}, rows=2, line=0
load exponents, row={last - 18}, rows=2, line=0, stride=17
load broadcast, row={last - 1}, rows=1, line=0
load weights, row={weights - 1}, rows=1, line=0
load scales, row={scales - 1}, rows=1, line=0
wait
{_gemm(source=last - 7, **own)}
{_gemm(destination=last - 5)}
{shared}compress source={last - 16}, destination=0, elements=1
compress source={params.beat_words}, destination={last - 5}, elements=1
compress source={params.beat_words}, destination={16 + params.beat_words}, elements=1
add r0, r{last - 16}, r{last - 32}, elements=1
add r0, r{last - 32}, r{last - 16}, elements=1
add r{last - 16}, r0, #1, elements=1
sum s7, r{last - 16}, elements={params.group}
add s7, s7, s7
store activations, row={last - 16}, rows=16, line={LINES - 16 * 2}
halt""")
