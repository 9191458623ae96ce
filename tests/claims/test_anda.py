"""Published speedups as ratios of programs with the same boundary on both sides."""

import pytest

from tilewright.claims import load_claims
from tilewright.claims.anda import _lengths, anda_model_speedup
from tilewright.golden.params.anda_machine import AndaParams, group_rows
from tilewright.sim import accelerator as acc
from tilewright.sim.length_search import MODULES, lengths_of_saving, saving
from tilewright.sim.models import resolve_model
from tilewright.sim.programs import length_of_cycles, projections_time, slower_array
from tilewright.sim.workload import linear


def test_baselines_are_the_same_machine_with_other_cycles():
    """An fp16 machine has 16 cycles a group, and 16 rows of a group in the buffer."""
    length = length_of_cycles(acc.BASELINES["fp-fp"])
    assert length == 15 and group_rows(length) == 16
    assert [length_of_cycles(acc.BASELINES[f"figna-m{m}"]) for m in (11, 8)] == [10, 7]


def test_programs_take_a_little_longer_than_the_formula():
    shape, lengths = resolve_model("opt-1.3b"), {"qkv": 7, "o": 6, "u": 6, "d": 5}
    products = linear(shape, 2048)
    found = projections_time(AndaParams(), products, lengths)
    formula = sum(time.cycles for time in acc.run(acc.anda(lengths), products))
    assert 1 < found.cycles / formula < 1.05
    assert slower_array(found, 1) == found.cycles < slower_array(found, 2) < 2 * found.cycles
    own = dict(zip(MODULES, _lengths("opt-1.3b", "1p0"), strict=True))
    machines = (acc.baseline("fp-fp"), acc.anda(own))
    theirs, ours = (sum(time.cycles for time in acc.run(m, products)) for m in machines)
    assert anda_model_speedup("opt-1.3b", "1p0") == pytest.approx(theirs / ours, rel=0.01)


def test_printed_savings_are_those_of_whole_lengths():
    """Within the digits that are printed, with lengths that the paper does not."""
    prefix = "anda.table2.bops."
    claims = [c for c in load_claims("anda").values() if c.id.startswith(prefix)]
    assert len(claims) == 54
    for claim in claims:
        model = claim.id.removeprefix(prefix).split(".", 2)[2]
        shape = resolve_model(model)
        found = saving(shape, lengths_of_saving(shape, claim.number))
        assert found == pytest.approx(claim.number, rel=0.01), claim.id
