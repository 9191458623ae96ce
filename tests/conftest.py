"""What every test may use: options for parts of long runs and for their outcomes."""

pytest_plugins = ["tests.support.campaign"]
