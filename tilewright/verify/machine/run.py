"""Runs one program and writes down what it left.

``TILEWRIGHT_TASK`` has the folder with ``task.npz`` (memory, program), the memory's latency, and
the line from which the program streams, if it is not to be loaded into the instruction memory;
``memory.npy`` goes there, counters and status into the report.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from tilewright.golden.params.machine import Register
from tilewright.verify import job
from tilewright.verify.machine.host import Host
from tilewright.verify.streams import Harness


@cocotb.test
async def program(dut: Any) -> None:
    task = json.loads(os.environ["TILEWRIGHT_TASK"])
    folder = Path(task["folder"])
    with np.load(folder / "task.npz") as given:
        memory = given["memory"].copy()
        halves = given["program"].tolist()
    words = [low | high << 64 for low, high in halves]
    asked = job.load()
    clock = Harness(dut)
    start = time.perf_counter()
    host = Host(clock, asked.params, memory, latency=task["latency"])
    await host.start()
    if task["line"] is None:
        status = await host.run_program(words, task["limit"])
    else:
        status = await host.run_stream(task["line"], task["limit"])
    counters = await host.counters()
    events = await host.read(Register.EVENTS)
    np.save(folder / "memory.npy", memory)
    job.report(
        cases=1,
        cycles=clock.cycle,
        seconds=time.perf_counter() - start,
        status={
            "error": status.error.name.lower(),
            "instruction": status.instruction,
        },
        saturated=bool(events & 1),
        counters={counter.name.lower(): value for counter, value in counters.items()},
    )
