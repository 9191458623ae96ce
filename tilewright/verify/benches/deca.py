"""DECA processing element: a memory and a core around it."""

from tilewright.verify.coverage import Coverage

TESTS = ("results", "combinations", "cycles", "errors", "squash", "registers", "prefetch")
MODULE = ",".join(f"tilewright.verify.deca.{name}" for name in TESTS)


def exhaustive(stalls: tuple[float, ...]) -> Coverage:
    """Every combination that an exhaustive run must reach."""
    from tilewright.verify.deca.workload import tile_coverage

    return tile_coverage(stalls)
