"""How many damaged inputs each parser has had: the record of ``tests.support.fuzz_campaign``."""

import json
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FUZZING", "Fuzzed", "load_fuzzing"]

FUZZING = Path(__file__).parents[1] / "records" / "fuzzing.json"


@dataclass(frozen=True)
class Fuzzed:
    """Of one parser."""

    name: str
    runs: int
    inputs: int
    read: int  # the others were refused
    kinds_of_refusals: int
    minutes: float
    findings: int  # of the last run


def load_fuzzing(path: Path = FUZZING) -> list[Fuzzed]:
    """Return one line a parser; nothing where no campaign was recorded."""
    if not path.exists():
        return []
    targets = json.loads(path.read_text())["targets"]
    return [Fuzzed(name=name, **entry) for name, entry in targets.items()]
