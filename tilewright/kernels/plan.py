"""What the bench of the kernels measures: layers, sparsities, batches, threads and rounds."""

from dataclasses import dataclass

from tilewright.kernels.library import default_threads

__all__ = ["Plan", "full_plan", "quick_plan"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that is measured; shapes are (inputs, outputs) of a layer, sparsity a share of zeros."""

    shapes: tuple[tuple[int, int], ...]
    curve_shape: tuple[int, int]
    sparsities: tuple[float, ...]
    batches: tuple[int, ...]
    threads: tuple[int, ...]
    schemes: tuple[tuple[str, float | None], ...]  # of DECA, with their density
    scheme_shape: tuple[int, int]
    cache: tuple[int, int, int, int]  # heads, query heads of each, tokens, dim of a layer's cache
    working_set: int  # bytes of weights that each contestant goes through, at least
    rounds: int
    attempts: int  # races at most, where rounds scatter
    patience: float  # seconds after which a race is not run again


def full_plan() -> Plan:
    """The layers of Llama 3 8B, at 0 to 95% zeros, batch 1 to 64, 1 thread to all."""
    most = default_threads()
    densities = (0.5, 0.3, 0.2, 0.1, 0.05)
    return Plan(
        shapes=((4096, 4096), (4096, 1024), (4096, 14336), (14336, 4096)),
        curve_shape=(4096, 14336),
        sparsities=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
        batches=(1, 2, 4, 8, 16, 32, 64),
        threads=(*(n for n in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64) if n < most), most),
        schemes=(
            *(("bf16", None), *(("bf16", d) for d in densities)),
            *(("bf8", None), *(("bf8", d) for d in densities)),
            *(("mxfp4", None), ("mxfp4", 0.5)),
        ),
        scheme_shape=(4096, 14336),
        cache=(8, 4, 16384, 128),  # Llama 3 8B at a context of 16K
        working_set=960_000_000,
        rounds=7,
        attempts=2,
        patience=1.5,
    )


def quick_plan() -> Plan:
    """Everything once, on toys: shows that it runs, says nothing about speed."""
    return Plan(
        shapes=((96, 40),),
        curve_shape=(64, 32),
        sparsities=(0.0, 0.5),
        batches=(1, 5),
        threads=(1, 2),
        schemes=(("bf16", None), ("bf8", 0.5), ("mxfp4", None)),
        scheme_shape=(64, 32),
        cache=(2, 2, 40, 16),
        working_set=20_000,
        rounds=2,
        attempts=1,
        patience=0.0,
    )
