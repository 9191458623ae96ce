"""Synthesis jobs from Python: what is planned, what is fresh, what comes back."""

import pytest

from tilewright.studies.synthesis import store_whole
from tilewright.synth import jobs
from tilewright.synth.equivalence import Verdict
from tilewright.synth.flow import Goal
from tilewright.synth.jobs import Request, has_fresh_record, plan, run_jobs
from tilewright.synth.liberty import to_liberty
from tilewright.synth.liberty_reader import read_liberty
from tilewright.synth.record import committed_form, find_record
from tilewright.synth.technology import load_technology

ASAP7, SKY130 = (load_technology(name) for name in ("asap7", "sky130hd"))


def test_plan_follows_the_technology_of_a_request():
    requests = [Request("popcount:odd"), Request("queue:tiny", Goal.FASTEST, "sky130hd")]
    found = list(plan(requests, [ASAP7, SKY130], keep_hierarchy=True))
    assert [(job.spec, job.technology.name, job.goal) for job in found] == [
        ("popcount:odd", "asap7", Goal.AREA),
        ("popcount:odd", "sky130hd", Goal.AREA),
        ("queue:tiny", "sky130hd", Goal.FASTEST),
    ]
    assert all(job.keep_hierarchy and job.clock is None for job in found)


def test_freshness_needs_record_and_verdict(monkeypatch):
    (job,) = plan([Request("popcount:odd")], [ASAP7])
    assert has_fresh_record(job)
    assert has_fresh_record(job, with_verdict=True)
    bare = find_record(job.params, "asap7")
    del bare["proof"]
    monkeypatch.setattr(jobs, "find_record", lambda *_, **__: bare)
    assert has_fresh_record(job)
    assert not has_fresh_record(job, with_verdict=True)
    (other,) = plan([Request("popcount,width=14")], [ASAP7])
    assert not has_fresh_record(other)
    monkeypatch.undo()
    assert not has_fresh_record(other)


def test_results_come_in_order_with_records_and_proofs():
    requests = [Request("popcount:odd"), Request("queue:tiny")]
    planned = list(plan(requests, [ASAP7]))
    first, second = run_jobs(planned, jobs.prove)
    assert [first.job, second.job] == planned
    committed = find_record(first.job.params, "asap7")
    assert committed_form(first.record) | {"proof": committed["proof"]} == committed
    assert first.proof.verdict in (Verdict.PROVED, Verdict.PROVED_FROM_GATES)
    (without,) = run_jobs(planned[:1])
    assert without.proof is None


def test_records_of_a_users_library_are_refused(tmp_path):
    path = tmp_path / "own.lib"
    path.write_text(to_liberty(SKY130))
    with pytest.raises(ValueError, match=r"^records are of the project's technologies$"):
        store_whole("system", "popcount", read_liberty([path]), {})
