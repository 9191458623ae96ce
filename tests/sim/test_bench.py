"""The tasks of the performance model's benchmark run."""

from benchmarks import programs


def test_the_tasks_run():
    programs.roof_surface()
    programs.table6()
    seconds, peak = programs.command("--version")
    assert seconds > 0 and peak > 1 << 20
