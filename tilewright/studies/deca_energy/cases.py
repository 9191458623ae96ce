"""What the energy of a whole DECA is measured on; the report names the runs by it."""

from dataclasses import dataclass

__all__ = ["CASES", "FULL_ACTIVITY", "IDLE", "Case"]

IDLE = "idle"


@dataclass(frozen=True)
class Case:
    """A scheme and what stands in its codes.

    ``real``: quantised weights; ``random``: any bits; ``zero``: the code 0. Bitmasks and scales
    are those of the weights for all three.
    """

    scheme: str
    density: float | None = None
    data: str = "real"

    def __str__(self) -> str:
        density = "" if self.density is None else f"@{self.density:g}"
        return f"{self.scheme}{density} {self.data}"


# Those that share a table follow each other.
CASES = (
    Case("mxfp4"),
    Case("mxfp4", data="random"),
    Case("mxfp4", data="zero"),
    Case("bf8"),
    Case("bf8", 0.5),
    Case("bf8", 0.5, "random"),
    Case("bf8", 0.5, "zero"),
    Case("bf8", 0.2),
    Case("bf8", 0.05),
    Case("bf16", 0.5),
)


# Every stage works in every cycle: a chunk through tables and multipliers, a row written and read.
FULL_ACTIVITY = str(Case("mxfp4"))
