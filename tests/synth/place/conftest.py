"""Small blocks that several tests look at, each placed once."""

import pytest

from tilewright.synth.place.place import place_block


@pytest.fixture(scope="package")
def popcount():
    return place_block("popcount:odd")


@pytest.fixture(scope="package")
def queue():
    return place_block("queue:odd")
