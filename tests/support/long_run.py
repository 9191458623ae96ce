"""``python -m tests.support.long_run``: all long tests at once on a machine of many processors.

Each of ``--jobs`` processes runs a few cases and writes their outcomes as they come: what ends
early loses nothing but the case that was running. Half of them take long cases, the longest first
by the times of docs/evidence.json, the others short ones, of which many are done in any time; no
more than ``--large`` of those that build a machine of a paper's size run at a time, for each needs
10 GB. ``tilewright evidence --add FOLDER/*.json --known FOLDER/tests.txt``
takes the outcomes over.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tilewright.studies.evidence import read_run, read_summary
from tilewright.studies.evidence.summary import FILE

ROOT = Path(__file__).parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "full")
LARGE = re.compile(r"papers_size|paper_sizes|hbm2|rtl_token|decoder_layer|smollm2")
OF_LARGE, OF_OTHERS = 120.0, 20.0  # seconds of a case that no run has timed
ENOUGH = 45.0  # seconds of work in a process: less would go into starting it
LAST = ("tests/fuzz/",)  # which can be cut short with the least loss


@dataclass(frozen=True)
class Part:
    """Cases of one test that run in one process."""

    cases: tuple[str, ...]
    seconds: float

    @property
    def is_large(self) -> bool:
        return bool(LARGE.search(self.cases[0]))

    @property
    def is_long(self) -> bool:
        return self.seconds > ENOUGH and not self.cases[0].startswith(LAST)

    @property
    def order(self) -> tuple[bool, float, tuple[str, ...]]:
        return self.cases[0].startswith(LAST), -self.seconds, self.cases


def parts_of(cases: Iterable[str], seconds: dict[str, float]) -> list[Part]:
    """Cases in the order in which they begin; those of one test stay together up to ``ENOUGH``."""
    parts: list[Part] = []
    for case in cases:
        guess = OF_LARGE if LARGE.search(case) else OF_OTHERS
        one = seconds.get(case, guess)
        if parts and _test(parts[-1].cases[0]) == _test(case):
            last = parts[-1]
            if last.seconds + one <= ENOUGH:
                parts[-1] = Part((*last.cases, case), last.seconds + one)
                continue
        parts.append(Part((case,), one))
    return sorted(parts, key=lambda part: part.order)


def _test(case: str) -> str:
    return case.partition("[")[0]


def collected(chosen: list[str]) -> list[str]:
    """The long tests there are, as pytest names them."""
    command = [*PYTEST, "--collect-only", *chosen]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    cases = [line for line in done.stdout.splitlines() if line.startswith("tests/")]
    if not cases:
        raise SystemExit(f"no long tests: {(done.stdout + done.stderr)[-500:]}")
    return cases


class Runner:
    """Processes that run parts, and what is still ahead of them."""

    def __init__(self, parts: list[Part], folder: Path, jobs: int, large: int):
        self.ahead, self.folder, self.jobs, self.large = deque(parts), folder, jobs, large
        self.running: dict[subprocess.Popen[bytes], Part] = {}
        self.started = 0

    def next_part(self) -> Part | None:
        """The first that may begin now."""
        now = self.running.values()
        room = sum(part.is_large for part in now) < self.large
        may = [part for part in self.ahead if room or not part.is_large]
        wants_long = sum(part.is_long for part in now) < (self.jobs + 1) // 2
        part = next((p for p in may if p.is_long == wants_long), may[0] if may else None)
        if part is not None:
            self.ahead.remove(part)
        return part

    def start(self, part: Part) -> None:
        self.started += 1
        name = self.folder / f"{self.started:04}"
        command = [*PYTEST, "-rfE", "--tb", "short", f"--outcomes={name}.json", *part.cases]
        with Path(f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        self.running[process] = part

    def run(self, seconds: float) -> None:
        """Until all is done or the time is over."""
        end = time.monotonic() + seconds
        while (self.ahead or self.running) and time.monotonic() < end:
            for process in [p for p in self.running if p.poll() is not None]:
                del self.running[process]
            while len(self.running) < self.jobs and (part := self.next_part()):
                self.start(part)
            time.sleep(0.2)
        for process in self.running:
            process.kill()
        for process in self.running:
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.long_run", description=__doc__)
    parser.add_argument("chosen", nargs="*", metavar="TEST", help="files or tests (default all)")
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--large", type=int, default=1, help="of a paper's size at a time")
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("-o", type=Path, default=Path("out/evidence"), metavar="FOLDER")
    args = parser.parse_args()
    start = time.monotonic()
    args.o.mkdir(parents=True, exist_ok=True)
    folder = args.o.resolve()
    cases = collected(args.chosen)
    (folder / "tests.txt").write_text("".join(f"{case}\n" for case in cases))
    entries = read_summary(ROOT / FILE).tests
    parts = parts_of(cases, {name: entry.seconds for name, entry in entries.items()})
    runner = Runner(parts, folder, args.jobs, args.large)
    runner.run(60 * args.minutes - (time.monotonic() - start))
    runs = [read_run(path) for path in sorted(folder.glob("[0-9]*.json"))]
    found = {name: one.outcome for run in runs for name, one in run.tests.items()}
    for name in cases:
        if found.get(name) != "passed":
            print(f"{found.get(name, 'no outcome')}: {name}")
    print(dict(Counter(found.values())), "of", len(cases))
    return int(any(outcome == "failed" for outcome in found.values()))


if __name__ == "__main__":
    sys.exit(main())
