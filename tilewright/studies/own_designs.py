"""Designs of the user's own, told apart by their names, and ours.

An accelerator is a TOML file, a format is ``FILE.py:CLASS``, and a PE is the JSON that
``tilewright compare pe --with FILE.v ... --json`` printed; an accelerator's ``pe_record`` is taken
along with it.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.golden.formats import is_own, resolve_format
from tilewright.sim.accelerator import Accelerator
from tilewright.sim.llm import LlmResult, answer
from tilewright.sim.models import resolve_model
from tilewright.sim.own_accelerator import is_accelerator, pe_of, read_accelerator
from tilewright.sim.roofsurface import Diagram, diagram
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.target import resolve_target
from tilewright.sim.xeon import SYSTEMS

OURS = ("anda", "harmonia", "fp-fp")  # accelerators shown with the user's
SCHEMES = ("bf16", "bf8", "mxfp4")  # of servers, shown with a format
SERVER = "spr-hbm"
TECHNOLOGY = "asap7"
PES = ("FP-FP", "FP-FP discrete", "FIGNA", "Anda m7", "Harmonia m8w4")  # shown with the user's


@dataclass(frozen=True, kw_only=True)
class OwnDesigns:
    """The designs that were given, by kind."""

    accelerators: tuple[str, ...] = ()  # TOML files
    formats: tuple[str, ...] = ()  # FILE.py:CLASS
    pes: tuple[dict[str, Any], ...] = ()  # rows of a comparison

    @property
    def cores_can(self) -> tuple[str, ...]:
        """Formats that say what a core takes to decompress them."""
        return tuple(f for f in self.formats if resolve_format(f).vector_operations is not None)

    def surface(self, rows: int = 16) -> Diagram:
        """Return the Roof-Surface of a server with these formats, and all accelerators."""
        machines: list[Accelerator] = [resolve_target(name).accelerator(None) for name in OURS]
        machines += [read_accelerator(Path(name)) for name in self.accelerators]
        schemes = [resolve_weight_scheme(name) for name in (*SCHEMES, *self.cores_can)]
        return diagram(SYSTEMS[SERVER], schemes, rows=rows, beside=machines)

    def answers(self, model: str, batch: int = 1, context: int = 1024) -> list[LlmResult]:
        """Return a step of a model on all accelerators and, in all formats, on a server."""
        shape = resolve_model(model)
        found = [
            answer(shape, name, batch=batch, context=context)
            for name in (*OURS, *self.accelerators)
        ]
        if self.formats:
            engines = {
                **dict.fromkeys(SCHEMES, "software"),
                **dict.fromkeys(self.formats, "optimal"),
            }
            engines |= dict.fromkeys(self.cores_can, "software")
            found += [
                answer(shape, SERVER, engine=engine, scheme=scheme, batch=batch, context=context)
                for scheme, engine in engines.items()
            ]
        return found

    def pe_rows(self) -> list[dict[str, Any]]:
        """Return some of our PEs and these, in the technology and at the clock of all."""
        # Imported here: records of PEs are needed only where one is given.
        from tilewright.studies.pe.compare import compare_in
        from tilewright.synth.technology import load_technology

        ours = compare_in(load_technology(TECHNOLOGY)).pes
        return [*(asdict(pe) for pe in ours if pe.name in PES), *self.pes]


def read_designs(names: Sequence[str]) -> OwnDesigns:
    """Read all of them, so that errors in one are reported before any work is done."""
    accelerators, formats, pes = [], [], []
    for name in names:
        path = Path(name)
        if is_own(name):
            resolve_format(name)
            formats.append(name)
        elif not path.is_file():
            raise CommandError(
                f"there is no file {name}; a design is FILE.toml, FILE.py:CLASS or the FILE.json"
                " that compare pe printed"
            )
        elif path.suffix == ".json":
            pes += _pes(path)
        elif path.suffix == ".toml" and is_accelerator(path):
            read_accelerator(path)
            accelerators.append(name)
            row = pe_of(path)
            pes += [] if row is None else [row]
        else:
            raise CommandError(
                f'{name} is no accelerator, whose file begins with kind = "accelerator",'
                " no FILE.py:CLASS and no FILE.json"
            )
    once = {row["spec"]: row for row in pes}  # two designs may name one PE
    return OwnDesigns(
        accelerators=tuple(accelerators), formats=tuple(formats), pes=tuple(once.values())
    )


def _pes(path: Path) -> list[dict[str, Any]]:
    try:
        (found, *_) = json.loads(path.read_text())["comparisons"]
        if found["technology"] != TECHNOLOGY:
            raise CommandError(f"{path} is of {found['technology']}; compare pe with --tech asap7")
        return [row for row in found["pes"] if ".v:" in row["spec"]]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError):
        raise CommandError(f"{path} is not what `compare pe --json` prints") from None
