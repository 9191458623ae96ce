"""A campaign over the blocks, kept as a record that it can be resumed from."""

import json
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from tilewright.base.files import write_atomic
from tilewright.golden.params.resolve import resolve
from tilewright.studies.mutations.judging import Mutant, Subject, Verdict, judge
from tilewright.studies.mutations.operators import Site, comparable, sample, sites_of
from tilewright.studies.mutations.proof import compare
from tilewright.studies.mutations.subjects import is_machine
from tilewright.synth.emit import to_rtlil
from tilewright.synth.record import sha256

__all__ = [
    "RECORD",
    "Campaign",
    "OfBlock",
    "Score",
    "judge_survivors",
    "load_campaign",
    "merged",
    "prove_survivors",
    "run_block",
    "scores",
]

RECORD = Path(__file__).parents[1] / "records" / "mutations.json"
MOST_DRAWN = 2000  # places tried for the mutants of a block
COMMAND = "python -m tilewright.cli.mutation_campaign"
# Machines behind a bus or beside a core, and what these wrap: errors of the latter are drawn in the
# campaign of the machine itself.
WRAPPED = {"anda_axi": "machine", "deca_axi": "pe", "deca_tepl": "pe", "harmonia_axi": "machine"}
_ELABORATION = Lock()  # one block at a time: Amaranth keeps what it makes in globals


@dataclass(frozen=True)
class OfBlock:
    """The mutants of one block, in the order of the sample."""

    rtlil_sha256: str  # of the block without an error
    drawn: int  # places tried, those that leave the Verilog as it is among them
    mutants: tuple[Mutant, ...]


@dataclass(frozen=True)
class Campaign:
    """By block, as it was asked for."""

    blocks: dict[str, OfBlock]

    def write(self, path: Path = RECORD) -> None:
        """Write it as JSON, at once or not at all."""
        data = {"command": COMMAND, "blocks": {k: asdict(v) for k, v in self.blocks.items()}}
        write_atomic(path, json.dumps(data, indent=1) + "\n")


@dataclass(frozen=True)
class Score:
    """Of one block."""

    block: str
    mutants: int
    found: int
    equivalent: int
    survived: int
    open: int = 0  # passed the bench; neither a proof nor a longer bench was tried yet

    @property
    def share(self) -> float:
        """Found ones among those that are neither proved equivalent nor open."""
        return self.found / max(self.found + self.survived, 1)

    @property
    def percent(self) -> str:
        """The share in words; a dash where all are open."""
        return f"{self.share:.1%}" if self.found + self.survived else "-"

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self) | {"share": round(self.share, 3)}


def load_campaign(path: Path = RECORD) -> Campaign:
    """Read a campaign; one that was never run is empty."""
    if not path.exists():
        return Campaign({})
    try:
        blocks = json.loads(path.read_text())["blocks"]
        return Campaign({block: _of_block(**found) for block, found in blocks.items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no record of mutations: {error!r}") from None


def _of_block(rtlil_sha256: str, drawn: int, mutants: list[dict[str, str]]) -> OfBlock:
    return OfBlock(rtlil_sha256, drawn, tuple(Mutant(**mutant) for mutant in mutants))


def scores(campaign: Campaign) -> list[Score]:
    """Return one line a block."""
    return [_score(block, found.mutants) for block, found in sorted(campaign.blocks.items())]


def _score(block: str, mutants: Iterable[Mutant]) -> Score:
    verdicts = [Verdict(mutant.verdict) for mutant in mutants]
    return Score(
        block=block,
        mutants=len(verdicts),
        found=sum(verdict.is_found for verdict in verdicts),
        equivalent=verdicts.count(Verdict.EQUIVALENT),
        survived=verdicts.count(Verdict.SURVIVED),
        open=verdicts.count(Verdict.OPEN),
    )


def prove_survivors(
    block: str,
    found: OfBlock,
    keep: Callable[[OfBlock], None] = lambda found: None,
    pool: Executor | None = None,
) -> OfBlock:
    """Look for proofs again, such as after a change of how they are sought.

    ``keep`` is called after every mutant; ``pool`` says how many are looked at at a time.
    """

    def look(rtlil: str, site: Site, mutant: Mutant) -> Mutant:
        answer = compare(*comparable(rtlil, site), whole=not is_machine(block))
        verdict = Verdict.EQUIVALENT if answer.is_proof else Verdict.SURVIVED
        return replace(mutant, verdict=verdict.value, finding=answer.method)

    return _survivors_again(block, found, look, keep, pool)


def judge_survivors(
    block: str,
    found: OfBlock,
    prepare: Callable[[str, str], Subject],
    keep: Callable[[OfBlock], None] = lambda found: None,
    pool: Executor | None = None,
) -> OfBlock:
    """Run the bench on survivors again, such as after it got new cases; as `prove_survivors`."""
    subjects: list[Subject] = []
    preparing = Lock()

    def look(rtlil: str, site: Site, mutant: Mutant) -> Mutant:
        with preparing:
            if not subjects:
                subjects.append(prepare(block, rtlil))
        return judge(subjects[0], site) or mutant

    return _survivors_again(block, found, look, keep, pool)


def _survivors_again(
    block: str,
    found: OfBlock,
    look: Callable[[str, Site, Mutant], Mutant],
    keep: Callable[[OfBlock], None],
    pool: Executor | None,
) -> OfBlock:
    """``found`` with what ``look`` makes of survivors; as it was where the RTL is another one."""
    with _ELABORATION:
        rtlil = to_rtlil(resolve(block))
    if sha256(rtlil) != found.rtlil_sha256:
        return found
    sites = {_identity(site): site for site in sites_of(rtlil)}
    mutants = list(found.mutants)
    alive = (Verdict.SURVIVED.value, Verdict.OPEN.value)
    with ThreadPoolExecutor(1) as alone:
        work = {
            (pool or alone).submit(look, rtlil, sites[_identity(mutant)], mutant): k
            for k, mutant in enumerate(mutants)
            if mutant.verdict in alive
        }
        for done in as_completed(work):
            mutants[work[done]] = done.result()
            found = replace(found, mutants=tuple(mutants))
            keep(found)
    return found


def run_block(
    block: str,
    count: int,
    before: OfBlock | None,
    prepare: Callable[[str, str], Subject],
    keep: Callable[[OfBlock], None],
    pool: Executor | None = None,
    *,
    prove: bool = True,
) -> OfBlock:
    """Judge ``count`` mutants of ``block``, going on from ``before`` where the RTL is the same.

    ``prepare`` measures the block without an error; ``keep`` is called after every place that was
    tried. ``pool`` says how many are judged at a time: one, where there is none. Which places are
    tried does not depend on that.
    """
    with _ELABORATION:
        rtlil = to_rtlil(resolve(block))
    key = sha256(rtlil)
    found = before if before and before.rtlil_sha256 == key else OfBlock(key, 0, ())
    wrapped = WRAPPED.get(block.partition(":")[0], "")
    if len(found.mutants) >= count and not wrapped:
        return found
    drawn = sample(rtlil, found.drawn + MOST_DRAWN, block, wrapped)
    if wrapped and not {_identity(mutant) for mutant in found.mutants} <= set(
        map(_identity, drawn)
    ):
        found = OfBlock(key, 0, ())  # drawn from what it wraps
    if len(found.mutants) >= count:
        return found
    # Of a campaign that was stopped: places behind one that was not done with.
    known = {_identity(mutant) for mutant in found.mutants}
    ahead = iter([k for k in range(found.drawn, len(drawn)) if _identity(drawn[k]) not in known])
    with ThreadPoolExecutor(1) as alone:
        pool = pool or alone
        subject = pool.submit(prepare, block, rtlil).result()
        tried = Tried(found)
        while places := list(islice(ahead, count - len(tried.now.mutants))):
            work = {pool.submit(judge, subject, drawn[k], prove=prove): k for k in places}
            for done in as_completed(work):
                tried.add(work[done], done.result())
                keep(tried.now)
    return tried.now


class Tried:
    """The mutants of a block while places are tried in any order."""

    def __init__(self, before: OfBlock):
        self.before = before
        self.places: dict[int, Mutant | None] = {}

    def add(self, place: int, mutant: Mutant | None) -> None:
        self.places[place] = mutant

    @property
    def now(self) -> OfBlock:
        """Mutants in the order of the sample; places count up to the first that is not tried."""
        drawn = self.before.drawn
        while drawn in self.places:
            drawn += 1
        new = (mutant for _, mutant in sorted(self.places.items()) if mutant)
        return replace(self.before, drawn=drawn, mutants=(*self.before.mutants, *new))


def _identity(place: Site | Mutant) -> tuple[str, str, str]:
    return place.kind, place.where, place.change


def merged(campaign: Campaign, parts: Iterable[Campaign]) -> Campaign:
    """Return the campaign with parts of it that ran apart: mutants of the same RTL join.

    A part of other RTL replaces what is there, for it is the later one.
    """
    blocks = dict(campaign.blocks)
    for part in parts:
        for block, found in part.blocks.items():
            before = blocks.get(block)
            if before and before.rtlil_sha256 == found.rtlil_sha256:
                new = {_identity(mutant): mutant for mutant in (*before.mutants, *found.mutants)}
                drawn = max(before.drawn, found.drawn)
                found = replace(found, drawn=drawn, mutants=tuple(new.values()))
            blocks[block] = found
    return Campaign(dict(sorted(blocks.items())))
