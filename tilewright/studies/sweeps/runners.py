"""Jobs of a sweep side by side: on the cores of this machine, or on a Dask cluster."""

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from tilewright.base.cache import load, store
from tilewright.base.errors import CommandError
from tilewright.studies.sweeps.results import Result
from tilewright.studies.sweeps.work import Job, VariantError, quick_key, run_apart, sources_key

__all__ = ["Outcome", "connect", "run_here", "run_on_cluster"]

Outcome = Result | VariantError
CONNECT_SECONDS = 20  # for a scheduler to answer, and for its first worker


def run_here(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Outcome]]:
    """Every job with its result, in the order in which they end."""
    missing = yield from _known(jobs)
    # Threads suffice: the work is in processes, which an interrupt reaches as it reaches us.
    pool = ThreadPoolExecutor(workers)
    try:
        futures = {pool.submit(run_apart, asdict(job)): job for job in missing}
        for future in as_completed(futures):
            yield _ended(futures[future], future)
    finally:
        pool.shutdown(cancel_futures=True)


def run_on_cluster(jobs: Sequence[Job], address: str) -> Iterator[tuple[Job, Outcome]]:
    """As :func:`run_here`, on the workers of a Dask scheduler, which must have these sources."""
    missing = yield from _known(jobs)
    if not missing:
        return
    with connect(address) as client:
        from distributed import as_completed as in_order_of_completion

        futures = {client.submit(run_apart, asdict(job), pure=False): job for job in missing}
        for future in in_order_of_completion(list(futures)):
            yield _ended(futures[future], future)


def _known(jobs: Sequence[Job]) -> Generator[tuple[Job, Outcome], None, list[Job]]:
    """Yields the results that earlier runs have cached; returns the other jobs."""
    missing = []
    for job in jobs:
        result = load(quick_key(job))
        if result is None:
            missing.append(job)
        else:
            yield job, Result.from_json(result)
    return missing


def _ended(job: Job, future: Future[dict[str, Any]]) -> tuple[Job, Outcome]:
    """A job with its outcome; ``future`` has ended, here or on a cluster."""
    error = future.exception()
    if error is not None:
        return job, error if isinstance(error, VariantError) else VariantError(repr(error))
    found = future.result()
    if found["sources"] == sources_key():  # else they changed meanwhile
        store(quick_key(job), found["result"])
    return job, Result.from_json(found["result"])


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """A client of the Dask scheduler at ``address``, whose workers have these sources."""
    try:
        from distributed import Client
    except ImportError:
        raise CommandError("--dask needs Dask: pip install 'tilewright[dask]'") from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise CommandError(f"no Dask scheduler answers at {address}: {reason}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise CommandError(f"the Dask scheduler at {address} has no workers") from None
        for worker, key in client.run(sources_key).items():
            if key != sources_key():
                raise CommandError(f"worker {worker} has other sources than this machine")
        yield client
