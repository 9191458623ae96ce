"""What every test may use: options for parts of runs, their outcomes and lines, groups, a wheel."""

from hypothesis import settings

pytest_plugins = [f"tests.support.{name}" for name in ("campaign", "installed", "lines", "workers")]

# No test measures time: a busy machine may take as long as it needs for an example.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
