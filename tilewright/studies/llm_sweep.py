"""Sweeps over questions about language models: on all cores, on a Dask cluster, resumable.

Points go out in parts. A part that has ended is a file of the folder ``out``, named after the
question, its points and the sources, so that the same sweep goes on where it was interrupted.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

from tilewright.base.cache import content_key
from tilewright.base.cores import available_cores
from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.sim.cost import Cost
from tilewright.sim.llm import LlmResult, MemoryBytes
from tilewright.sim.own_format import is_own
from tilewright.sim.serving import GenerationResult, Question
from tilewright.sim.sweep import Point, answers_of, points_of
from tilewright.studies.sweeps.runners import connect

__all__ = ["from_json", "run_llm_sweep"]

Answer: TypeAlias = LlmResult | GenerationResult
ROOT = Path(__file__).parents[1]
SOURCES = ("golden", "sim", "synth/records", "kernels/records")
PART = 250  # points: a tenth of a second of work, or half of one where every point has other rows
ALONE = 2000  # points that one process does sooner than others have started


def run_llm_sweep(
    question: Question,
    axes: Mapping[str, Sequence[int | str]],
    *,
    workers: int | None = None,
    cluster: str | None = None,
    out: Path | None = None,
    tick: Callable[[str, int], None] = lambda doing, points: None,
) -> list[Answer]:
    """Return the answers at every point, in the order of :func:`tilewright.sim.sweep.sweep`.

    ``workers`` processes (by default all cores where it pays) or the workers of the Dask scheduler
    at ``cluster`` do the work. ``tick`` is called with the number of points that are done.
    """
    points = points_of(question, axes)
    parts = [points[at : at + PART] for at in range(0, len(points), PART)]
    files = [None if out is None else out / f"{_key(question, part)}.json" for part in parts]
    found: dict[int, list[Answer]] = {}
    for k, file in enumerate(files):
        if file is not None and file.exists():
            found[k] = [from_json(row) for row in json.loads(file.read_text())]
            tick("found", len(parts[k]))
    missing = [k for k in range(len(parts)) if k not in found]
    if workers is None:
        workers = 1 if len(points) <= ALONE else available_cores()
    for k, answers in _run(question, parts, missing, workers, cluster):
        found[k] = answers
        file = files[k]
        if file is not None:
            write_atomic(file, json.dumps([asdict(answer) for answer in answers]))
        tick(" ".join(f"{name}={value}" for name, value in parts[k][-1].items()), len(parts[k]))
    return [answer for k in range(len(parts)) for answer in found[k]]


def _run(
    question: Question,
    parts: Sequence[list[Point]],
    missing: Sequence[int],
    workers: int,
    cluster: str | None,
) -> Iterator[tuple[int, list[Answer]]]:
    """Yield the number of each missing part with its answers, as they come."""
    if cluster is not None:
        with connect(cluster) as client:
            from distributed import as_completed as in_order_of_completion

            for worker, key in client.run(model_key).items():
                if key != model_key():
                    raise CommandError(f"worker {worker} has another model than this machine")
            ks: dict[Any, int] = {
                client.submit(answers_of, question, parts[k], pure=False): k for k in missing
            }
            for future in in_order_of_completion(list(ks)):
                yield ks[future], future.result()
    elif workers == 1 or len(missing) < 2:
        for k in missing:
            yield k, answers_of(question, parts[k])
    else:
        # Fresh processes: a copy of this one could hold a lock of one of its threads.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            futures: dict[Future[list[Answer]], int] = {
                pool.submit(answers_of, question, parts[k]): k for k in missing
            }
            try:
                for done in as_completed(futures):
                    yield futures[done], done.result()
            finally:
                pool.shutdown(cancel_futures=True)


def _key(question: Question, points: Sequence[Point]) -> str:
    """Name the answers; they change with the question, the points and every source."""
    return content_key([repr(question), json.dumps(points), *_files(question, points), model_key()])


def _files(question: Question, points: Sequence[Point]) -> list[str]:
    """Return what is in the user's own files that the question or a point names."""
    fields = ("model", "system", "draft", "scheme")
    names = {getattr(question, name) for name in fields}
    names |= {str(p[name]) for p in points for name in fields if name in p}
    found = []
    for name in sorted(filter(None, names)):
        path = Path(name.rpartition(":")[0] if is_own(name) else name)
        path = path / "config.json" if path.is_dir() else path
        if path.is_file():
            found.append(path.read_text(errors="replace"))
    return found


@cache
def model_key() -> str:
    """A digest that changes with every source and record that an answer can depend on."""
    paths = [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*"))]
    kept = [path for path in paths if path.suffix in (".py", ".toml", ".json") and path.is_file()]
    return content_key(text for path in kept for text in (path.name, path.read_text()))


def from_json(data: Mapping[str, Any]) -> Answer:
    """Return the answer that ``dataclasses.asdict`` has turned into JSON data."""
    kind = GenerationResult if "total_ms" in data else LlmResult
    cost = data["cost"]
    return kind(
        **{
            **data,
            "memory_bytes": MemoryBytes(**data["memory_bytes"]),
            "cost": None if cost is None else Cost(**cost),
            "contexts": tuple((sequences, tokens) for sequences, tokens in data["contexts"]),
            "remarks": tuple(data["remarks"]),
        }
    )
