"""Every preset of every block: it builds, says what it is, and has a name of its own."""

import json
from collections import Counter

import pytest

from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.hw.catalog import CATALOG

PRESETS = [f"{block}:{preset}" for block, cls in BLOCKS.items() for preset in cls.PRESETS]


def test_slugs_are_unique():
    slugs = Counter(resolve(name).slug for name in PRESETS)
    assert [slug for slug, count in slugs.items() if count > 1] == []


def test_every_block_has_a_component_and_every_component_a_block():
    assert set(BLOCKS) == set(CATALOG)


@pytest.mark.parametrize("name", BLOCKS)
def test_block_describes_itself(name):
    cls = BLOCKS[name]
    assert issubclass(cls, BlockParams) and cls.block == name
    assert cls.summary and "\n" not in cls.summary
    assert cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}(")  # not the generated one
    assert cls.preset() == cls()  # the first preset is the default


@pytest.mark.parametrize("name", PRESETS)
def test_preset_has_ports_and_a_name(name):
    params = resolve(name)
    block = params.block
    assert params == type(params).preset(name.partition(":")[2])
    assert params.slug.isidentifier() and params.slug.startswith(block)
    ports = [*params.inputs, *params.outputs]
    assert (params.inputs and params.outputs) or params.wires
    names = [p.name for p in (*ports, *params.wires)]
    assert len(set(names)) == len(names)
    for port in ports:
        assert port.bits >= 1 and len({f.name for f in port.fields}) == len(port.fields)
    assert json.loads(json.dumps(params.as_dict())) == params.as_dict()
    assert hash(params) == hash(resolve(name))


@pytest.mark.parametrize("name", PRESETS)
def test_preset_states_its_timing_or_says_where_to_find_it(name):
    """A block whose cycles depend on its data has no fixed timing; it names their model instead."""
    try:
        timing = resolve(name).timing
    except NotImplementedError as reason:
        assert "see tilewright.golden." in str(reason)
    else:
        assert timing.latency >= 0 and timing.interval > 0


@pytest.mark.parametrize("name", PRESETS)
def test_fields_survive_the_command_line(name):
    """Settings from ``as_dict`` make the same object."""
    params = resolve(name)
    words = {True: "true", False: "false", None: "none"}
    settings = {
        key: words[value] if value is None or isinstance(value, bool) else value
        for key, value in params.as_dict().items()
    }
    text = ",".join([params.block, *(f"{key}={value}" for key, value in settings.items())])
    assert resolve(text) == params
