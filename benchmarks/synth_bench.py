"""Speed of synthesis: the largest processing element to cells, from nothing and from the cache.

    python -m benchmarks.synth_bench [--json]

The limit is one minute for one element in one technology on 2 cores; a second run of the same
content must not synthesise again.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from unittest.mock import patch

from benchmarks.race import Figure, main, seconds
from tilewright.studies.sweeps.work import run_apart

LIMIT = 60.0  # seconds
JOB = {"spec": "harmonia_pe", "technology": "asap7"}


def measure() -> Iterator[Figure]:
    """Seconds with an empty cache, and with what that run has left in it."""
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="tilewright-") as cache,
        patch.dict(os.environ, XDG_CACHE_HOME=cache),
    ):
        for name in ("synthesis of harmonia_pe in asap7", "the same from the cache"):
            taken = seconds(lambda: results.append(run_apart(JOB)["result"]))
            yield Figure(name, taken, limit=LIMIT)
    if results[0]["metrics"] != results[1]["metrics"]:
        raise RuntimeError("the cache gives another result")


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
