"""One answer about a language model, printed for people."""

from typing import TYPE_CHECKING

from tilewright.base.console import print_table
from tilewright.cli.llm_tables import contexts_text, show_remarks

if TYPE_CHECKING:
    from tilewright.sim.cost import Cost
    from tilewright.sim.llm import LlmResult
    from tilewright.sim.serving import GenerationResult

__all__ = ["print_answer"]


def print_answer(found: "LlmResult | GenerationResult") -> None:
    """Print one answer, and what there is to remark about it."""
    from tilewright.sim.llm import LlmResult

    engine = f" with {found.engine}" if found.engine else ""
    active = ""
    if found.active_parameters < 0.75 * found.parameters:
        active = f", {found.active_parameters / 1e9:.2f} billion for a token"
    memory = found.memory_bytes
    if found.tensor * found.pipeline > 1:
        engine += f", tensor {found.tensor} x pipeline {found.pipeline}"
    rows = [
        ("model", f"{found.model}, {found.parameters / 1e9:.2f} billion parameters{active}"),
        ("system", f"{found.system}{engine}, scheme {found.scheme}"),
        *([("block", found.block)] if found.block else []),
        *(_step(found) if isinstance(found, LlmResult) else _generation(found)),
        ("efficiency", _efficiency(found)),
        *([("cost", _cost(found.cost))] if found.cost is not None else []),
        (
            "memory",
            f"weights {memory.weights / 1e9:.2f} GB, cache {memory.cache / 1e9:.3f} GB"
            f" in {found.kv_format}",
        ),
    ]
    print_table(("WHAT", "VALUE"), rows)
    if isinstance(found, LlmResult):
        print()
        parts = found.ms_by_part.items()
        print_table(("PART", "MS"), [(name, f"{value:.3f}") for name, value in parts])
    show_remarks([found])


def _efficiency(found: "LlmResult | GenerationResult") -> str:
    area = found.tokens_per_second_per_mm2
    dies = "area not known" if area is None else f"{area:.3g} tokens/s/mm2"
    return f"{found.tokens_per_second_per_watt:.3g} tokens/s/W, {dies}"


def _cost(cost: "Cost") -> str:
    return (
        f"${cost.total:.3g} a million tokens: hardware ${cost.hardware:.3g},"
        f" energy ${cost.energy:.3g}"
    )


def _step(found: "LlmResult") -> list[tuple[str, str]]:
    use = ", ".join(f"{name} {100 * share:.0f}%" for name, share in found.utilisation.items())
    energy = ", ".join(f"{name} {joules:.3g} J" for name, joules in found.joules_by_part.items())
    return [
        ("work", f"{found.phase}, batch {found.batch}, context {contexts_text(found)}"),
        ("latency", _duration(found.latency_ms)),
        ("rate", f"{found.tokens_per_second:.2f} tokens/s"),
        ("use", use),
        ("bound by", found.bound),
        ("energy of a step", energy or "not modelled"),
    ]


def _generation(found: "GenerationResult") -> list[tuple[str, str]]:
    return [
        ("work", f"batch {found.batch}, prompt {contexts_text(found)}, then {found.tokens} tokens"),
        ("first token", _first(found)),
        ("each other token", f"{_duration(found.token_ms)}, the last {found.last_token_ms:.2f} ms"),
        ("total", _duration(found.total_ms)),
        ("rate", f"{found.tokens_per_second:.2f} new tokens/s"),
        ("energy", f"{found.joules_per_token:.3g} J a new token"),
    ]


def _first(found: "GenerationResult") -> str:
    longest = ""
    if found.longest_pass_ms < found.first_token_ms:
        longest = f", in passes of at most {_duration(found.longest_pass_ms)}"
    return _duration(found.first_token_ms) + longest


def _duration(milliseconds: float) -> str:
    """In seconds from ten of them on."""
    if milliseconds < 1e4:
        return f"{milliseconds:.2f} ms"
    return f"{milliseconds / 1e3:.1f} s"
