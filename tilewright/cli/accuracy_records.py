"""``python -m tilewright.cli.accuracy_records MODEL``: make every committed record again.

With INT4 weights and then with the file's; factors are learned once. Meant for a large machine.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.studies.accuracy.records import (
    COMMAND,
    FILE_MAKERS,
    LEARNED,
    MAKERS,
    RECORDS,
    describe,
    save_record,
)
from tilewright.studies.accuracy.subject import DEVICES, open_subject

ALL = (*MAKERS, *FILE_MAKERS)


def main(argv: Sequence[str]) -> int:
    """Make the records that the command line asks for, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description="Make every committed record of the accuracy studies again."
    )
    parser.add_argument("model", help="smollm2, a GGUF file or a Hugging Face folder")
    parser.add_argument("--text", type=Path, help="prose; that of the Python reference if absent")
    parser.add_argument("--tokens", type=int, default=8192, help="for calibration [%(default)s]")
    parser.add_argument(
        "--window", type=int, default=2048, help="tokens per sequence [%(default)s]"
    )
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="[%(default)s]")
    parser.add_argument("--out", type=Path, default=RECORDS, help="folder of the records")
    parser.add_argument("--log", type=Path, help="files of this name remember perplexities")
    parser.add_argument("--only", choices=ALL, nargs="*", default=ALL, help="these records alone")
    args = parser.parse_args(argv)
    start = time.monotonic()

    def tick(doing: str) -> None:
        print(f"{time.monotonic() - start:7.1f} s  {doing}", file=sys.stderr, flush=True)

    def prefixed(name: str, doing: str) -> None:
        tick(f"{name}: {doing}")

    learned: dict[str, Any] = {}
    size = {"tokens": args.tokens, "window": args.window}
    command = f"{COMMAND} smollm2 --tokens {args.tokens} --window {args.window}"
    for weights, makers in (("search", MAKERS), ("file", FILE_MAKERS)):
        wanted = [name for name in makers if name in args.only]
        if not wanted:
            continue
        subject = open_subject(
            args.model, text=args.text, weights=weights, device=args.device, **size
        )
        subject.remember(args.log and args.log.with_stem(f"{args.log.stem}-{weights}"))
        subject.shared.update(learned)
        tick(f"model read, weights {subject.identity.weights}")
        for name in wanted:
            made = makers[name](subject, partial(prefixed, name))
            tick(f"wrote {save_record(name, describe(subject, command) | made, args.out)}")
        learned = {key: found for key, found in subject.shared.items() if key == LEARNED}
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
