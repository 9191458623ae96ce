"""Benches of DECA: the processing element, behind AXI, and behind the TEPL unit."""

from tilewright.verify.bench import Bench


class DecaBench(Bench):
    """Bench of the DECA processing element: a memory and a core around it.

    An exhaustive run must reach every combination of ``tilewright.verify.deca.workload``.
    """

    tests = tuple(
        f"tilewright.verify.deca.{name}"
        for name in (
            *("results", "combinations", "cycles", "errors", "squash", "registers", "prefetch"),
        )
    )
    exhaustible = True


class DecaAxiBench(Bench):
    """Bench of DECA behind AXI: an AXI memory and an AXI master around it."""

    tests = ("tilewright.verify.deca.axi",)


class DecaTeplBench(Bench):
    """Bench of DECA behind the TEPL unit: a memory and a core that speculates around it."""

    tests = ("tilewright.verify.deca.tepl", "tilewright.verify.deca.throughput")
