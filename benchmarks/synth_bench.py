"""Speed of synthesis: the largest processing element to cells, from nothing and from the cache.

    python -m benchmarks.synth_bench [--json] [--block BLOCK]

The limit is one minute for one element in one technology on 2 cores; a second run of the same
content must not synthesise again.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from unittest.mock import patch

from tilewright.studies.sweeps.work import run_apart

LIMIT = 60.0  # seconds


def measure(block: str, technology: str) -> dict[str, float | str]:
    """Seconds with an empty cache, and with what that run has left in it."""
    job = {"spec": block, "technology": technology}
    seconds, results = [], []
    with (
        tempfile.TemporaryDirectory(prefix="tilewright-") as cache,
        patch.dict(os.environ, XDG_CACHE_HOME=cache),
    ):
        for _ in range(2):
            start = time.perf_counter()
            results.append(run_apart(job)["result"])
            seconds.append(time.perf_counter() - start)
    if results[0]["metrics"] != results[1]["metrics"]:
        raise RuntimeError(f"{block}: the cache gives another result")
    return {
        "block": block,
        "technology": technology,
        "area_um2": results[0]["metrics"]["area"]["value"],
        "first_s": round(seconds[0], 2),
        "again_s": round(seconds[1], 2),
        "limit_s": LIMIT,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="synth_bench", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--block", default="harmonia_pe", help="what to map (harmonia_pe)")
    parser.add_argument("--tech", default="asap7", help="in which cells (asap7)")
    options = parser.parse_args(arguments)
    figures = measure(options.block, options.tech)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        print(
            f"{figures['block']} in {figures['technology']}: {figures['first_s']} s, limit"
            f" {LIMIT:.0f} s; again {figures['again_s']} s"
        )
    return 0 if max(float(figures["first_s"]), float(figures["again_s"])) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
