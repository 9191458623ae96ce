"""What every test may use: options for parts of runs, their outcomes and lines, and groups."""

from hypothesis import settings

pytest_plugins = ["tests.support.campaign", "tests.support.lines", "tests.support.workers"]

# No test measures time: a busy machine may take as long as it needs for an example.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
