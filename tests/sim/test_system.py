"""Servers as data: every number has a source, files and settings mean what they say."""

from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest

from tilewright.sim.accelerator import ACCELERATORS
from tilewright.sim.gemm import gemm_result
from tilewright.sim.llm import answer
from tilewright.sim.models import resolve_model
from tilewright.sim.own_accelerator import SETTINGS
from tilewright.sim.records import area_um2
from tilewright.sim.serving import Question, ask
from tilewright.sim.system import (
    QUANTITIES,
    Server,
    changed_server,
    parse_settings,
    read_server,
    servers,
    sources,
)
from tilewright.sim.target import resolve_target, silicon_mm2
from tilewright.sim.workload import Gemm

SMALL = resolve_model("llama-3.2-1b")


def test_what_is_shipped():
    assert list(servers()) == ["spr-ddr", "spr-hbm", "emr", "gnr-mrdimm", "turin"]


@pytest.mark.parametrize("name", servers())
def test_every_number_has_a_source(name):
    assert sources(name).keys() == QUANTITIES.keys()
    assert all(len(source) >= 8 for source in sources(name).values())


@pytest.mark.parametrize("server", servers().values(), ids=lambda server: server.name)
def test_a_server_is_whole(server):
    """All units busy take the design power; memory gives no more than its channels have."""
    assert {field.name for field in fields(Server)} == {*QUANTITIES, "name", "about"}
    shares = ("idle_power", "core_power", "vector_power", "matrix_power")
    assert sum(server.rate(share) for share in shares) == pytest.approx(1)
    assert 0.4 < server.bandwidth / (server.memory_channels * server.channel_bandwidth) < 0.95


def test_the_papers_servers_are_theirs():
    hbm = servers()["spr-hbm"]
    assert (hbm.cores, hbm.clock, hbm.bandwidth, hbm.capacity) == (56, 2.5e9, 850e9, 64e9)
    assert (hbm.matrix_rate, hbm.vector_rate) == (56 * 2.5e9 / 16, 2 * 56 * 2.5e9)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_a_users_file(tmp_path):
    text = """about = "a larger one"
    based_on = "gnr-mrdimm"
    cores = { value = 86, source = "its data sheet" }
    clock = "2.2 GHz"
    capacity = "1.5 TB"
    """
    path = write(tmp_path, text)
    mine, base = read_server(path), servers()["gnr-mrdimm"]
    assert (mine.name, mine.cores, mine.clock, mine.capacity) == ("mine", 86, 2.2e9, 1.5e12)
    assert mine.bandwidth == base.bandwidth
    found = answer(SMALL, str(path))
    assert (found.system, found.memory_bytes.capacity) == ("mine", 1.5e12)
    alone = write(tmp_path, 'bandwidth = "100 GB/s"\ncapacity = "64 GB"\n')
    assert read_server(alone).bandwidth == 100e9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cores = ", "is not TOML: "),
        ("coers = 3", "unknown field 'coers'; did you mean cores?"),
        ("cores = 3", "bandwidth, capacity missing; give it, or based_on"),
        ('based_on = "spr"', "unknown system 'spr'; did you mean spr-ddr or spr-hbm?"),
        ("about = 3", "about must be text, not 3"),
        ("cores = [3]", "cores must be a number with a unit, not [3]"),
        ("cores = { value = 3, origin = 1 }", "cores takes value and source, not ['origin']"),
        ('based_on = "emr"\nbandwidth = "1 TB/s"', "above the peak of its channels, 8 x 44.8"),
        ('based_on = "emr"\nclock = "fast"', "clock must be a number with a unit (Hz, KHz,"),
    ],
)
def test_files_that_are_refused(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=r"mine\.toml") as error:
        read_server(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_settings_change_a_named_server():
    settings = parse_settings("cores=86, clock=2.0GHz, bandwidth=844GB/s")
    found = changed_server(servers()["spr-ddr"], settings)
    assert (found.cores, found.clock, found.bandwidth) == (86, 2e9, 844e9)
    assert found.memory_channels * found.channel_bandwidth == 844e9


@pytest.mark.parametrize("name", servers())
def test_a_field_set_to_its_own_value_changes_nothing(name):
    server = servers()[name]
    for field in QUANTITIES:
        assert changed_server(server, {field: str(getattr(server, field))}) == server, field


MINE = 'kind = "accelerator"\nrows = 8\ncolumns = 8\ngroup = 64\ngroup_cycles = 16\nclock = 3e8\n'


@pytest.mark.parametrize("name", [*ACCELERATORS, "block", "mine.toml"])
def test_an_accelerator_with_a_field_set_to_its_own_value_gives_the_same_answer(name, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    system = {"block": "harmonia", "mine.toml": str(path)}.get(name, name)
    block = "harmonia:wide" if name == "block" else None
    plain = resolve_target(system, block=block)
    machine, unset = plain.accelerator(None), answer(SMALL, plain, context=64)
    for field in SETTINGS:
        own = getattr(machine, {"memory_energy": "memory_pj_per_bit"}.get(field, field))
        target = resolve_target(system, block=block, settings={field: repr(own)})
        assert answer(SMALL, target, context=64) == unset, field


def test_more_bandwidth_is_never_slower_on_an_accelerator():
    """But for instructions that overlap by chance: less than one part in ten thousand."""
    rates = ("8GB/s", "16GB/s", "64GB/s", "256GB/s", "280GB/s", "1TB/s")
    for name in ("harmonia", "anda", "fp-fp"):
        ms = [answer(SMALL, name, settings={"bandwidth": r}).latency_ms for r in rates]
        assert all(fast <= (1 + 1e-4) * slow for slow, fast in pairwise(ms))
        assert ms[0] > ms[1]


WORK = [("software", "bf16"), ("software", "mxfp4"), ("deca", "bf8_20%"), ("optimal", "bf8")]


@pytest.mark.parametrize("name", servers())
@pytest.mark.parametrize(("engine", "scheme"), WORK)
def test_less_of_a_server_is_never_faster(name, engine, scheme):
    server = servers()[name]
    changes = ({"cores": server.cores // 2}, {"cores": 1}, {"clock": server.clock / 2})
    changes += ({"bandwidth": server.bandwidth / 2}, {"core_bandwidth": server.core_bandwidth / 2})
    for batch in (1, 40):
        whole, *less = (
            answer(SMALL, name, engine=engine, scheme=scheme, batch=batch, settings=settings)
            for settings in ({}, *({k: repr(v) for k, v in c.items()} for c in changes))
        )
        assert all(found.latency_ms >= whole.latency_ms for found in less)
        for part in ("small kernels", "attention"):
            assert less[1].ms_by_part[part] > whole.ms_by_part[part]  # of one core
            assert less[2].ms_by_part[part] == pytest.approx(2 * whole.ms_by_part[part])


def test_a_core_draws_no_more_than_its_loads_can():
    """Decompressed or not; 56 of them draw what the tables of DECA's paper have."""
    gemm = Gemm(name="x", module="o", rows=1, inner=8192, outer=57344)
    for scheme, size in (("bf16", 2), ("bf8", 1)):
        target = resolve_target("spr-hbm", engine="software", settings={"cores": "1"})
        seconds = gemm_result(gemm, target, scheme).milliseconds / 1e3
        assert gemm.matrix * size / seconds <= servers()["spr-hbm"].core_bandwidth


@pytest.mark.parametrize(
    ("scheme", "least", "most"), [("bf16_50%", 0.98, 1.02), ("bf8", 1.3, 2), ("bf8_20%", 1.2, 2)]
)
def test_a_deca_with_a_slower_clock(scheme, least, most):
    """Half of its clock is twice its cycles; where memory bounds a product, it hardly loses.

    With bf16 at 50% it even gains 1.3%, as fewer prefetches are dropped.
    """
    gemm = Gemm(name="x", module="o", rows=1, inner=8192, outer=57344)
    fast, slow = (
        gemm_result(gemm, resolve_target("spr-hbm", settings=clock), scheme).milliseconds
        for clock in ({}, {"deca_clock": "1.25GHz"})
    )
    assert least <= slow / fast <= most


def test_twice_the_bandwidth_halves_what_memory_bounds():
    gemm = Gemm(name="x", module="o", rows=1, inner=8192, outer=57344)
    one, two = (
        gemm_result(gemm, resolve_target("spr-ddr", settings=s), "bf8")
        for s in ({}, {"bandwidth": "520GB/s"})
    )
    assert one.bound == two.bound == "memory"
    assert one.milliseconds / two.milliseconds == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("engine", ["software", "deca", "optimal"])
def test_without_a_matrix_unit_products_take_the_vector_units(engine):
    """Each row of a tile takes 16 instructions, two a cycle: 8 cycles of a core."""
    target = resolve_target("turin", engine=engine)
    gemm = Gemm(name="x", module="o", rows=64, inner=4096, outer=128 * 1024)
    found = gemm_result(gemm, target, "mxfp4")
    tiles = 4096 * 128 * 1024 / 512 / 128
    least = tiles * 64 * 8 / 2.7e9
    assert least <= found.milliseconds / 1e3 < 1.5 * least
    assert found.utilisation["matrix"] == 0


@pytest.mark.parametrize(
    "work", [{"batch": 4}, {"prompt": 64, "tokens": 4}, {"within_ms": 100.0}], ids=str
)
def test_watts_are_joules_at_the_rate(work):
    found = ask(Question(model="llama-3.2-1b", **work))
    watts = found.joules_per_token * found.tokens_per_second
    assert found.average_watts == pytest.approx(watts)
    per_watt = found.tokens_per_second / found.average_watts
    assert found.tokens_per_second_per_watt == pytest.approx(per_watt)


def test_areas_are_those_of_dies_and_records():
    server = resolve_target("spr-hbm", engine="software")
    assert silicon_mm2(server) == server.server.die_area
    deca = resolve_target("spr-hbm")
    more = 56 * area_um2("deca", "fastest") / 1e6
    assert silicon_mm2(deca) == pytest.approx(server.server.die_area + more)
    anda, harmonia = (silicon_mm2(resolve_target(name)) for name in ("anda", "harmonia"))
    assert 0 < harmonia < anda < 5 or 0 < anda < harmonia < 5
    assert silicon_mm2(resolve_target("fp-fp")) is None  # no such machine was synthesised
