"""The job of a simulation, and its report (``verify.simulators.run``)."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import resolve

P = TypeVar("P", bound=BlockParams)

DEFAULT_STALLS = (0.0, 0.3, 0.8)  # probability that a side waits, per cycle and port


@dataclass(frozen=True)
class Job:
    """One run of a bench."""

    block: str  # as ``tilewright.golden.params.resolve`` reads it
    cases: int = 300
    seed: int = 1
    stalls: tuple[float, ...] = DEFAULT_STALLS
    exhaustive: bool = False  # the bench's ``exhaustive`` cases instead of random ones

    def __post_init__(self) -> None:
        if self.cases < 1:
            raise ValueError(f"cases must be at least 1, not {self.cases!r}")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, not {self.seed!r}")
        for stall in self.stalls:
            if not 0 <= stall <= 0.95:
                raise ValueError(f"stall must be 0..0.95, not {stall!r}")

    @property
    def params(self) -> BlockParams:
        """The parameters of the block."""
        return resolve(self.block)

    def params_as(self, kind: type[P]) -> P:
        """Return the parameters, which must be of this kind."""
        params = self.params
        if not isinstance(params, kind):
            raise TypeError(f"{self.block} has no {kind.__name__}")
        return params

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def load() -> Job:
    """The job of this simulation."""
    fields = json.loads(os.environ["TILEWRIGHT_JOB"])
    return Job(**fields | {"stalls": tuple(fields["stalls"])})


def report(**numbers: Any) -> None:
    """Report ``numbers`` to the caller of the simulation; ``cases``, ``cycles`` and ``seconds``
    (of the clocked part alone) are what ``tilewright simulate`` prints."""
    Path(os.environ["TILEWRIGHT_REPORT"]).write_text(json.dumps(numbers))
