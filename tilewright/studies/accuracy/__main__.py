"""``python -m tilewright.studies.accuracy MODEL``: every committed record, made again in one go.

The same as the commands ``search`` and ``kv`` with ``--update-record``, with INT4 weights and then
with the file's, but factors are learned once; meant for a large machine.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from tilewright.studies.accuracy.records import (
    FILE_MAKERS,
    LEARNED,
    MAKERS,
    RECORDS,
    describe,
    save_record,
)
from tilewright.studies.accuracy.subject import ENGINES, open_subject

COMMAND = "python -m tilewright.studies.accuracy"
ALL = (*MAKERS, *FILE_MAKERS)


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.partition("\n\n")[0])
    parser.add_argument("model", help="smollm2, a GGUF file or a Hugging Face folder")
    parser.add_argument("--text", type=Path, help="prose; that of the Python reference if absent")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--window", type=int, default=2048)
    parser.add_argument("--engine", choices=ENGINES, default="auto")
    parser.add_argument("--out", type=Path, default=RECORDS, help="folder of the records")
    parser.add_argument("--log", type=Path, help="files of this name remember perplexities")
    parser.add_argument("--only", choices=ALL, nargs="*", default=ALL)
    args = parser.parse_args()
    start = time.monotonic()

    def tick(doing: str) -> None:
        print(f"{time.monotonic() - start:7.1f} s  {doing}", file=sys.stderr, flush=True)

    learned: dict[str, Any] = {}
    for weights, makers in (("search", MAKERS), ("file", FILE_MAKERS)):
        wanted = [name for name in makers if name in args.only]
        if not wanted:
            continue
        subject = open_subject(
            args.model,
            text=args.text,
            tokens=args.tokens,
            window=args.window,
            weights=weights,
            engine=args.engine,
        )
        subject.remember(args.log and args.log.with_stem(f"{args.log.stem}-{weights}"))
        subject.shared.update(learned)
        tick(f"model read, weights {subject.identity['weights']}")
        command = f"{COMMAND} smollm2 --tokens {args.tokens} --window {args.window}"
        for name in wanted:
            made = makers[name](subject, lambda doing, name=name: tick(f"{name}: {doing}"))
            path = save_record(name, describe(subject, command) | made, args.out)
            tick(f"wrote {path}")
        learned = {key: found for key, found in subject.shared.items() if key == LEARNED}


if __name__ == "__main__":
    main()
