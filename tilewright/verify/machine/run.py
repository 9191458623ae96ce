"""Runs one program and records its results.

``TILEWRIGHT_TASK`` has the folder with ``task.npz`` (memory, program), the memory's latency, and
the line from which the program streams, if it is not to be loaded into the instruction memory;
``memory.npy`` goes there, counters and status into the report.
"""

import json
import os
from pathlib import Path

import numpy as np

from tilewright.golden.machine.dram import Dram
from tilewright.golden.machine.moves import Timing
from tilewright.golden.params.machine import Register
from tilewright.verify.machine.host import Host
from tilewright.verify.session import Session, system_test, tell


@system_test
async def program(s: Session) -> None:
    task = json.loads(os.environ["TILEWRIGHT_TASK"])
    folder = Path(task["folder"])
    with np.load(folder / "task.npz") as given:
        memory = given["memory"].copy()
        halves = given["program"].tolist()
    words = [low | high << 64 for low, high in halves]
    dram = Dram(**task["dram"]) if "dram" in task else None
    timing = Timing(task["latency"], dram=dram, clock=task.get("clock", 0))
    host = Host(s.clock, s.params, memory, latency=timing)
    await host.start()
    if task["line"] is None:
        status = await host.run_program(words, task["limit"])
    else:
        status = await host.run_stream(task["line"], task["limit"])
    counters = await host.counters()
    events = await host.read(Register.EVENTS)
    np.save(folder / "memory.npy", memory)
    s.cases += 1
    tell(
        status={"error": status.error.name.lower(), "instruction": status.instruction},
        saturated=bool(events & 1),
        counters={counter.name.lower(): value for counter, value in counters.items()},
    )
