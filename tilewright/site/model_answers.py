"""Answers of cycle models that the site and ``tilewright claims`` need.

They ship with the package. ``python -m tilewright.site.model_answers`` computes those that follow
from a changed source, with ``--all`` every one. Until it is rerun they are computed on demand.
"""

import sys
from typing import Any

from tilewright.base.files import write_atomic
from tilewright.sim.model_answers import ANSWERS, recorded, shipped, text_of
from tilewright.site import accuracy, claims, lab, own, servers, sparamx

QUESTIONS = (
    *(
        claims.abstracts,
        claims.twice_as_slow,
        servers.systems,
        servers.by_batch,
        servers.by_context,
    ),
    *(servers.energy_by_context, servers.by_users, servers.by_cores, servers.integration),
    *(servers.anda_lengths, servers.measured, accuracy.machines, own.accelerators, own.answers),
    *(sparamx.left_of_deca, lab.SERVERS.answers, lab.ACCELERATORS.answers),
)


def answers_text(known: dict[str, Any] | None = None) -> str:
    """Return the content of the file; answers that are not ``known`` are computed."""
    with recorded(known) as answers:
        for ask in QUESTIONS:
            ask()
        for system in ("spr-ddr", "spr-hbm"):
            servers.speedups_by_scheme(system)
            servers.roofline(system)
    return text_of(answers)


if __name__ == "__main__":
    write_atomic(ANSWERS, answers_text({} if "--all" in sys.argv else shipped()))
