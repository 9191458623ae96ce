"""The page about the compiler: cycles of a token on both machines."""

from pathlib import Path

from tests.support.examples import table
from tilewright.golden.params.resolve import resolve
from tilewright.sim.models import resolve_model
from tilewright.sim.step_programs import step_time
from tilewright.sim.workload import Batch, Pass
from tilewright.studies.measured import load_measured
from tilewright.studies.model_record import NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "compiler.md").read_text()


def test_cycles_of_a_token():
    rows = table(PAGE, "tokens")
    assert [block for block, *_ in rows] == ["anda", "harmonia"]
    for block, before, now in rows:
        found = step_time(resolve(block), resolve_model("smollm2-135m"), Pass(Batch(((1, 256),))))
        assert f"{found.cycles:,.0f}" == now
        assert found.cycles < int(before.replace(",", ""))


def test_a_model_whose_layers_exceed_the_chip():
    page = " ".join(PAGE.split())
    for block, cycles, machine, engine in table(PAGE, "larger"):
        record = load_measured(NAMES[block])["larger"]
        found = record["perplexity"]
        assert cycles == f"{record['decode_cycles'][0]:,}"
        assert (machine, engine) == (f"{found['machine']:.3f}", f"{found['engine']:.3f}")
        assert abs(found["machine"] / found["engine"] - 1) < 0.02
        assert f"full precision has {found['full precision']:.3f}" in page
        assert f'"{record["text"]}"' in page
