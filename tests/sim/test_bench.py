"""The tasks of the performance model's benchmark run."""

import sys

from benchmarks import model_bench


def test_the_tasks_run():
    model_bench.roof_surface()
    model_bench.table6()
    model_bench.process([sys.executable, "-c", "pass"])()
