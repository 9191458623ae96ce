"""Cycles of the attention of compiled layers."""

from tilewright.compiler.count import step_time
from tilewright.compiler.machine import machine_of
from tilewright.compiler.plan import Plan
from tilewright.compiler.sizes import Step
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.resolve import resolve


def attention_time(block, heads, kv_heads, channels, step: Step, latency):
    """A shape of one layer with this attention; all else of it is small."""
    shape = LlmShape(
        model_type="llama",
        name="attention",
        num_hidden_layers=1,
        hidden_size=heads * channels,
        intermediate_size=heads * channels,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=channels,
        vocab_size=1024,
        max_position_embeddings=1 << 20,
    )
    context = max(seen for _, seen in step.seen)
    plan = Plan(machine=machine_of(resolve(block)), shape=shape, context=context)
    return step_time(plan, step, latency)["attention"]
