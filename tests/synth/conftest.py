import pytest


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """Nothing is kept from other tests or runs, so that what is asked for is really done."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
