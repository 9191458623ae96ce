"""The pages about the Anda accelerator: operations, attention, bandwidth."""

from pathlib import Path

from tests.golden.test_program_vector import BOUNDS
from tests.support.attention import attention_time
from tests.support.claims import claim
from tests.support.examples import table
from tilewright.compiler.sizes import Step
from tilewright.golden.machine.moves import Move, load_cycles
from tilewright.golden.params.anda_machine import AndaParams, Memory
from tilewright.golden.params.machine import CODE_LINES, INDICES, LIMIT, LOOP_LEVELS
from tilewright.sim.accelerator import Accelerator

DOCS = Path(__file__).parents[2] / "docs"
PAGE, MODELS, TIMING = (
    (DOCS / f"anda-{name}.md").read_text() for name in ("system", "models", "timing")
)


def test_operations_and_their_errors():
    rows = table(PAGE, "operations")
    assert [row[:2] for row in rows] == [
        [str(int(o)), o.name.lower()] for o in AndaParams().vector.operations
    ]
    for operation, bound in BOUNDS.items():
        assert f"error below {bound} ulp" in rows[operation][2]


def test_attention_rates():
    sizes = [(1, 1, 128), (4, 1, 128), (1, 1, 64)]  # heads, those of keys, channels

    def share(tokens, heads, kv_heads, channels):
        step = Step.prompt(tokens - 1, 1)
        # 150 ns at 285 MHz
        time = attention_time("anda", heads, kv_heads, channels, step, 43)
        return 2 * heads * tokens * channels / (AndaParams().vector.lanes * time.cycles)

    for context, *shown in table(MODELS, "attention"):
        tokens = int(context.replace(",", ""))
        assert shown == [f"{share(tokens, *size):.0%}" for size in sizes], context
    told = f"of their own the lanes have {share(1024, 32, 32, 128):.0%} at 1,024 tokens"
    assert told in " ".join(MODELS.split())


def test_limits():
    assert f"{LIMIT:,}" in PAGE
    assert f"up to {CODE_LINES} at a time" in PAGE and LOOP_LEVELS == INDICES == 3


def test_bandwidth_of_the_memory_port():
    params = AndaParams.preset("paper")
    page = " ".join(TIMING.split())
    port = params.beat_bits / 8 * claim("anda.clock") * 1e6
    assert f"{port / 1e9:.0f} GB/s at the paper's {claim('anda.clock')} MHz" in page
    assert params.beat_bits // 8 == 1024 and "1,024 bytes per cycle" in page
    assert port > Accelerator.bandwidth
    assert [params.beat_rows(m) for m in (Memory.WEIGHTS, Memory.SCALES)] == [4, 32]
    assert "4 rows of weights, 32 of scales" in page
    assert f"with {params.dma_lines} outstanding requests" in page

    def interval(latency):
        """Cycles in which a long load brings as many beats as requests are outstanding."""
        rows = [k * params.dma_lines * params.beat_rows(Memory.WEIGHTS) for k in (50, 51)]
        short, long = (load_cycles(params, Move(Memory.WEIGHTS, n), latency) for n in rows)
        return long - short

    for latency in (1, 61):
        assert interval(latency) == params.dma_lines
    for latency in (62, 100):
        assert interval(latency) == latency + 3
    weights = params.mxu.weight_beats * params.row_bits(Memory.WEIGHTS)
    group = (weights + params.row_bits(Memory.SCALES)) / 8
    assert group == 544
    for mantissa, needed in ((4, 109), (8, 60)):
        assert round(group / (mantissa + 1)) == needed
        assert f"{needed} bytes per cycle at M = 4" in page or f"{needed} at M = 8" in page
