"""The claims of the papers: one schema, and a file that breaks it is refused by name."""

import re
from pathlib import Path

import pytest

from tilewright import claims
from tilewright.claims import (
    Cause,
    Claim,
    Compare,
    facts,
    find_claim,
    load_claims,
    load_headlines,
    papers,
)

ROOT = Path(__file__).parents[2]
GOOD = 'id = "deca.x"\nvalue = 2.0\nwhere = "Table 1"\n'


def read(tmp_path, *entries):
    path = tmp_path / "deca.toml"
    path.write_text("".join(f"[[claim]]\n{entry}\n" for entry in entries))
    return claims._read(path)


def test_ids_are_unique_over_all_papers():
    ids = [name for paper in papers() for name in load_claims(paper)]
    assert len(ids) == len(set(ids))
    assert papers() == ("anda", "deca", "harmonia", "sparamx")


def test_a_claim_has_the_types_of_its_fields(tmp_path):
    extra = 'compare = "absolute"\ntolerance = 1\nours = ["f", 2]\n'
    extra += 'reason = "r"\ncause = "another process"\n'
    assert read(tmp_path, GOOD + extra) == {
        "deca.x": Claim(
            paper="deca",
            id="deca.x",
            value=2.0,
            where="Table 1",
            compare=Compare.ABSOLUTE,
            tolerance=1,
            ours=("f", 2),
            reason="r",
            cause=Cause.PROCESS,
        )
    }


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([GOOD + "tolerence = 1"], "unexpected keyword argument 'tolerence'"),
        (['id = "deca.x"\nvalue = 1'], "missing 1 required keyword-only argument: 'where'"),
        ([GOOD, GOOD], "deca.x: the id is there twice"),
        ([GOOD.replace("deca.x", "anda.x")], "anda.x: the id must begin with deca."),
        ([GOOD + 'compare = "less"'], "deca.x: 'less' is not a valid Compare"),
        (
            [GOOD + 'compare = "at_most"\ntolerance = 0.1'],
            "deca.x: tolerance goes with relative, absolute or inside, and with no study",
        ),
        (
            [GOOD + 'tolerance = 0.1\nstudy = "pe"'],
            "deca.x: tolerance goes with relative, absolute or inside, and with no study",
        ),
        (
            [GOOD + 'compare = "true"'],
            "deca.x: compare = 'true' goes with a truth value, not with 2.0",
        ),
        ([GOOD + "with = { n = 3 }"], "deca.x: with needs study"),
        (
            [GOOD + 'compare = "at_most"\nours = ["f"]\ncause = "another machine"'],
            "deca.x: cause needs reason",
        ),
        ([GOOD + "tolerance = 1"], "deca.x: ours goes with a comparison, and only there"),
        ([GOOD + 'ours = ["f"]'], "deca.x: ours goes with a comparison, and only there"),
        ([GOOD + 'cause = "our designs"'], "deca.x: 'our designs' is not a valid Cause"),
        (
            [GOOD + 'same_as = "deca.y"'],
            "deca.x: reason, not_evidence, same_as and derived_from need a comparison",
        ),
    ],
)
def test_a_file_that_breaks_the_schema_is_refused(tmp_path, entries, message):
    with pytest.raises(ValueError, match=f"^deca.toml: .*{re.escape(message)}$"):
        read(tmp_path, *entries)


def test_numbers_are_numbers():
    assert find_claim("deca.clock").number == 2.5
    assert find_claim("deca.area.share").numbers == {"buffers": 55, "lut": 22, "rest": 23}
    with pytest.raises(ValueError, match=r"^deca\.area\.share is not one number$"):
        _ = find_claim("deca.area.share").number
    with pytest.raises(ValueError, match=r"^harmonia\.group is not a table of numbers$"):
        _ = find_claim("harmonia.group").numbers
    with pytest.raises(ValueError, match=r"^unknown claim 'deca\.clok'; did you mean deca\.clock"):
        find_claim("deca.clok")


def test_every_claim_is_compared_or_a_fact_that_something_reads():
    """By a test, the report or a study, which have the whole name or make it from its parts.

    Or it is a line of the headlines, as not evaluated.
    """
    shown = {name for p in papers() for names in load_headlines(p).values() for name in names}
    rooms = [ROOT / "tilewright" / room for room in ("site", "studies")]
    sources = "".join(
        p.read_text() for room in (*rooms, ROOT / "tests") for p in room.rglob("*.py")
    )
    for claim in (fact for paper in papers() for fact in facts(paper)):
        stem = re.split(r"(?<=cycles_per_tile\.)|(?<=accesses_)|(?<=table2\.bops\.)", claim.id)[0]
        assert stem in sources or claim.id in shown, claim.id


def test_headlines_name_claims(tmp_path, monkeypatch):
    claims.load_headlines.cache_clear()
    monkeypatch.setattr(claims, "CLAIMS", tmp_path)
    read(tmp_path, GOOD)
    with (tmp_path / "deca.toml").open("a") as file:
        file.write('[headlines]\n"Speed" = ["deca.x", "deca.y"]\n')
    monkeypatch.setattr(claims, "papers", lambda: ("deca",))
    with pytest.raises(ValueError, match=r"^unknown claim 'deca\.y'; did you mean deca\.x\?$"):
        load_headlines("deca")
    claims.load_headlines.cache_clear()
