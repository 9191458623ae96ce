"""``import tilewright as tw``: what its examples show, what it refuses, and that it is quick."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

import tilewright as tw
from tilewright import api
from tilewright.api.models import load
from tilewright.base.table import Reported

MODULES = [f"tilewright.api.{module.name}" for module in pkgutil.iter_modules(api.__path__)]


@pytest.mark.parametrize("name", ["tilewright", *MODULES])
def test_examples(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted >= 3 and not found.failed


def test_import_takes_milliseconds():
    """As it loads nothing but a dozen small modules of Python's own."""
    code = "import sys; old = {*sys.modules}; import tilewright; dir(tilewright)"
    code += "; print(*sorted({*sys.modules} - old))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = ran.stdout.split()
    assert "tilewright" in loaded and len(loaded) < 20, ran.stdout + ran.stderr
    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names == {"tilewright"}
    assert not [name for name in loaded if name.startswith("tilewright.")]


def test_dir_is_what_there_is():
    assert {"block", "llm", "compile", "compress", "compare", "load"} < {*dir(tw)}
    assert dir(tw) == sorted(tw.__all__)
    assert all(callable(getattr(tw, name)) for name in dir(tw) if name != "__version__")
    with pytest.raises(AttributeError, match="no attribute 'blok'"):
        tw.blok  # noqa: B018


def test_results_show_themselves_in_notebooks():
    kinds = [
        value
        for module in map(importlib.import_module, MODULES)
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and name[0] != "_"
    ]
    assert len(kinds) == 9 and all(issubclass(kind, Reported) for kind in kinds)
    packed = [tw.compress(np.eye(32, 64), scheme) for scheme in ("bf8", "mxfp4")]
    for shown in (tw.block("queue"), tw.models(), tw.llm("llama-2-7b"), tw.compare(*packed)):
        html = ElementTree.fromstring(shown._repr_html_())
        rows = shown.report.rows if isinstance(shown, Reported) else shown.rows
        assert len(html.findall("table/tbody/tr")) == len(rows) > 1


def test_block():
    block = tw.block("queue:tiny", depth=3)
    assert block.fields == {"width": 4, "depth": 3}
    assert block.verilog().startswith(f"// {block.name}: ")
    assert "depth" in str(block.report) and "<table " in block._repr_html_()
    with pytest.raises(ValueError, match=r"did you mean depth\?"):
        tw.block("queue", dept=3)


def test_fields_are_written_as_on_the_command_line():
    assert tw.block("float_mul", rounding="toward_zero").spec == "float_mul,rounding=toward_zero"
    value = tw.block("float_mul", rounding="toward_zero").params.rounding
    assert tw.block("float_mul", rounding=value).spec == "float_mul,rounding=toward_zero"


def test_simulation_and_synthesis():
    block = tw.block("popcount:odd")
    run = block.simulate(cases=40)
    assert run.passed and run.failure is None and "passed" in str(run.report)
    small, large = (tw.block(name).synthesize("asap7") for name in ("popcount:odd", "popcount"))
    assert small.area < large.area and small.cells == small.metrics["cells"]
    assert "module popcount__width_13" in small.netlist
    found = tw.compare(small, large)
    assert found.ratios("area (um2)") == [1.0, large.area / small.area]
    assert f"{large.area / small.area:.2f}x" in str(found.report)


def test_prediction_is_that_of_the_command():
    from tilewright.sim.serving import Question, ask

    found = tw.llm("llama-2-7b", "spr-hbm", batch=2, set={"cores": "40"})
    asked = ask(Question(model="llama-2-7b", system="spr-hbm", batch=2, settings={"cores": "40"}))
    assert found.result == asked and found.tokens_per_second == asked.tokens_per_second
    with pytest.raises(TypeError, match=r"did you mean batch\?"):
        tw.llm("llama-2-7b", bach=2)


def test_block_in_a_system():
    small = tw.llm("llama-2-7b", "spr-hbm", block=tw.block("deca:small"))
    assert small.result == tw.llm("llama-2-7b", "spr-hbm", block="deca:small").result
    assert small.block == tw.block("deca:small").name


def test_weights_and_files(tmp_path):
    weights = np.random.default_rng(1).normal(size=(32, 64)).astype(np.float32)
    packed = tw.compress(weights, "bf8")
    assert packed.restore().shape == weights.shape and packed.bits_per_weight == 8
    assert tw.compress(weights, "bf8", density=0.25).bytes < packed.bytes
    with pytest.raises(ValueError, match="weights must be a matrix, not an array of 1 dimensions"):
        tw.compress(weights[0])
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load(tmp_path / "nothing")
    (tmp_path / "x.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="is no folder of tilewright compile"):
        load(tmp_path / "x.bin")


def test_compiled_model(tmp_path):
    compiled = tw.compile("tiny-llama", on="harmonia:small", context=32, to=tmp_path / "tiny")
    pieces: list[str] = []
    one = compiled.generate("Hi", tokens=3, stream=pieces.append)
    assert "".join(pieces) == one.text and one.sequences[0].decode.cycles > 0
    again = tw.load(tmp_path / "tiny").generate(["Hi"], tokens=3)
    assert again.texts == [one.text] and again.metrics == one.metrics
    assert "norm" in compiled.show("graph")


def test_compare_refuses():
    matrix = tw.compress(np.ones((32, 64)))
    with pytest.raises(ValueError, match="two results or more"):
        tw.compare(matrix)
    with pytest.raises(ValueError, match="of one kind, not Compressed, Predicted"):
        tw.compare(matrix, tw.llm("llama-2-7b"))
