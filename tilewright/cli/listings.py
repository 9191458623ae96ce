"""What ``tilewright list`` says of models and systems."""

from tilewright.base.console import print_json, print_table
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.accelerator import ACCELERATORS
from tilewright.sim.models import model_names, published, resolve_model
from tilewright.sim.system import QUANTITIES, servers, sources
from tilewright.sim.xeon import ENGINES

__all__ = ["print_models", "print_server", "print_systems"]


def print_models(as_json: bool) -> None:
    """Print the shapes of all models of the table."""
    shapes = [resolve_model(name) for name in model_names()]
    if as_json:
        print_json(
            [
                {
                    **vars(shape),
                    "parameters": shape.parameters,
                    "active_parameters": shape.active_parameters,
                    "source": published(shape.name).source,
                }
                for shape in shapes
            ]
        )
        return
    print_table(
        ("MODEL", "TYPE", "PARAMETERS", "FOR A TOKEN", "LAYERS", "HIDDEN", "CONTEXT", "ATTENTION"),
        [
            (
                *(shape.name, shape.model_type),
                *(f"{n / 1e9:.3f} G" for n in (shape.parameters, shape.active_parameters)),
                *(shape.num_hidden_layers, shape.hidden_size, shape.max_position_embeddings),
                _attention(shape),
            )
            for shape in shapes
        ],
    )


def _attention(shape: LlmShape) -> str:
    """Say how many heads there are, what is cached for them and how far layers look back."""
    text = f"{shape.num_attention_heads} heads, "
    if shape.latent is not None:
        text += f"{shape.cached_per_token} values for all"
    else:
        text += f"{shape.num_key_value_heads} of {shape.head_dim} cached"
    if shape.sliding_window is not None and shape.sliding_layers:
        text += f", {shape.sliding_layers} layers see {shape.sliding_window}"
    return text


def print_systems(as_json: bool) -> None:
    """Print the systems that the performance model has."""
    rows: list[tuple[str, str, float, float, float]] = [
        (name, f"{s.cores} cores: {s.about}", s.clock, s.bandwidth, s.capacity)
        for name, s in servers().items()
    ]
    for name, make in ACCELERATORS.items():
        m = make()
        about = f"{m.rows} x {m.columns} PEs for groups of {m.group}"
        rows.append((name, about, m.clock, m.bandwidth, m.capacity))
    if as_json:
        keys = ("system", "what", "clock_hz", "bandwidth_bytes_per_second", "capacity_bytes")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    print_table(
        ("SYSTEM", "WHAT", "CLOCK GHZ", "BANDWIDTH GB/S", "CAPACITY GB"),
        [(*row[:2], *(f"{value / 1e9:g}" for value in row[2:])) for row in rows],
    )
    print(f"\nengines of a server, by --engine: {', '.join(ENGINES)}; fields: tilewright list NAME")


def print_server(name: str, as_json: bool) -> None:
    """Print every field of a server, with its unit and where its value comes from."""
    server, told = servers()[name], sources(name)
    rows = [
        (field, server.rate(field), quantity.unit, quantity.about, told[field])
        for field, quantity in QUANTITIES.items()
    ]
    if as_json:
        keys = ("field", "value", "unit", "what", "source")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    print(f"{name}: {server.about}\n")
    print_table(
        ("FIELD", "VALUE", "UNIT", "WHAT", "SOURCE"),
        [(row[0], f"{row[1]:g}", *row[2:]) for row in rows],
    )
