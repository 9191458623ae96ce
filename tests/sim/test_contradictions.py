"""Contradictions of the papers: each is beyond rounding, and follows from printed figures alone."""

import json
from dataclasses import replace

import pytest

from tilewright.cli import main
from tilewright.report.reference.contradictions import contradiction_lists
from tilewright.claims import find_claim, papers
from tilewright.sim.contradictions import contradictions

ALL = contradictions()
# A printed figure that the claims hold too, and the subject that contradicts it.
CLAIMED = {
    "deca.table4.d100.deca.deca": "Use of DECA, dense BF8",
    "deca.table4.d50.deca.deca": "Use of DECA, BF8 at 50%",
    "deca.table4.d5.deca.deca": "Use of DECA, BF8 at 5%",
}


def test_every_paper_has_some():
    assert {one.paper for one in ALL} == set(papers())
    assert len({(one.paper, one.subject) for one in ALL}) == len(ALL) >= 30


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.paper}: {one.subject}")
def test_difference_is_beyond_rounding(one):
    assert abs(one.computed - float(one.printed)) > one.rounding


@pytest.mark.parametrize(("claim", "subject"), CLAIMED.items())
def test_printed_figures_are_those_of_the_claims(claim, subject):
    (one,) = (each for each in ALL if each.subject == subject)
    assert float(one.printed) == find_claim(claim).number


def test_what_rounding_explains_is_refused():
    peak = next(one for one in ALL if one.subject == "Peak of the matrix units")
    with pytest.raises(ValueError, match="prints as 72"):
        replace(peak, printed="72")
    with pytest.raises(ValueError, match="paper"):
        replace(peak, paper="decca")


def test_command_and_page_show_all(capsys):
    def shown_by(*argv):
        assert main(["claims", "--contradictions", "--json", *argv]) == 0
        return json.loads(capsys.readouterr().out)

    shown = shown_by()
    assert [one["subject"] for one in shown] == [one.subject for one in ALL]
    assert {one["paper"] for one in shown_by("--paper", "anda")} == {"anda"}
    page = contradiction_lists()
    assert all(one.subject in page for one in ALL)
