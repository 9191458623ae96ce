"""``python -m tilewright.cli.model_records NAME MODEL.gguf``: the formats on a real model.

Writes ``tilewright/studies/accuracy/records/models/NAME.json``. Perplexities and tasks
may be measured by separate runs: what the other run has written stays, if it is of the same file.
"""

import json
import shlex
import sys
from typing import Any

from tilewright.base.records import write_record
from tilewright.cli.model_record_options import model_record_parser

__all__ = ["main"]

COMMAND = "python -m tilewright.cli.model_records"
TOGETHER = {"cpu": 512, "cuda": 16384}  # tokens of zero-shot requests in a call


def main(argv: list[str] | None = None) -> int:
    """Measure what the command line asks for, and return the exit code."""
    from tilewright.golden.llm.model import ModelError
    from tilewright.golden.llm.text import default_text, digest, read_text
    from tilewright.studies.accuracy import models, tasks
    from tilewright.studies.accuracy.packaged import model_path
    from tilewright.studies.accuracy.subject import DEFAULT_TEXT

    parser = model_record_parser(COMMAND, __doc__)
    args = parser.parse_args(argv)
    for name in (*args.formats, *args.noise, *args.task_formats):
        if name not in models.FORMATS:
            parser.error(f"no format {name!r}; {', '.join(models.FORMATS)} are")
    for name in args.only:
        if name not in tasks.TASKS:
            parser.error(f"no task {name!r}; {', '.join(tasks.TASKS)} are")
    try:
        file = model_path(args.model)
    except ModelError as missing:
        parser.error(str(missing))
    if not file.is_file():
        parser.error(f"{file}: no such file")

    def tick(doing: str) -> None:
        print(doing, file=sys.stderr, flush=True)

    subject = models.open_model(file, threads=args.threads, device=args.device)
    path = args.out / f"{args.name}.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    described = models.describe(subject, file)
    if record and record["model"] != described:
        parser.error(f"{path} belongs to another model: {record['model']['file']}")
    record["model"] = described
    command = f"{COMMAND} {args.name} {file.name}"  # without folders of one machine

    def write(found: dict[str, Any]) -> None:
        record.update(found)
        write_record(path, record)

    if args.formats:
        text = default_text() if args.text is None else read_text(args.text)
        known = record.get("perplexity") if record.get("text_digest") == digest(text) else None
        words = f"{command} --tokens {args.tokens} --window {args.window} --device {args.device}"
        source = {
            "text": DEFAULT_TEXT if args.text is None else args.text.name,
            "text_digest": digest(text),
        }

        def keep(found: dict[str, Any]) -> None:
            """With a command that measures what the record has, whatever this run has added."""
            options = {"formats": found["perplexities"], "noise": found["noise_floor"]}
            names = {key: [row["format"] for row in rows] for key, rows in options.items()}
            asked = "".join(f" --{key} {shlex.join(each)}" for key, each in names.items())
            write({"command": words + asked, **source, "perplexity": found})

        models.measure_model(
            subject,
            text,
            tokens=args.tokens,
            window=args.window,
            formats=args.formats,
            noise=args.noise,
            known=known,
            keep=keep,
            tick=tick,
        )
    if args.tasks is not None:

        def keep_tasks(found: dict[str, Any]) -> None:
            """With a command that asks what the record has, also of a run that was cut short."""
            some = [{row[key]: 0 for row in found["rows"]} for key in ("task", "format")]
            only, formats = map(shlex.join, some)
            words = f"{command} --formats --tasks {args.tasks.name} --only {only}"
            words += f" --task-formats {formats} --questions {args.questions}"
            source = {"command": f"{words} --device {args.device}"}
            write({"zero_shot": {**source, "device": device_name(args.device), **found}})

        tasks.measure_tasks(
            subject,
            args.tasks,
            count=args.questions,
            tasks=args.only,
            formats=args.task_formats,
            known=record.get("zero_shot"),
            together=TOGETHER[args.device],
            keep=keep_tasks,
            tick=tick,
        )
    return 0


def device_name(device: str) -> str:
    """What a record says of the device: a GPU's name, or that it was a processor."""
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else "CPU"


if __name__ == "__main__":
    sys.exit(main())
