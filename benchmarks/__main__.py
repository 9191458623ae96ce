"""Speed and memory of the project's programs, of which some have limits.

    python -m benchmarks [NAME]... [--json]

Without a name all of them are measured, but for ``compiled``, which needs SmolLM2. The exit code is
1 where a limit is exceeded.
"""

import argparse
import json
import sys
from dataclasses import asdict

from benchmarks import programs

BENCHES = {"model": programs.model, "host": programs.host, "compiled": programs.compiled}


def main(words: list[str] | None = None) -> int:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="benchmarks", description=__doc__, formatter_class=formatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    args = parser.parse_args(words)
    if unknown := sorted(set(args.names) - set(BENCHES)):
        parser.error(f"no benchmark {unknown[0]!r}: there are {', '.join(BENCHES)}")
    figures = []
    for name in args.names or [name for name in BENCHES if name != "compiled"]:
        for figure in BENCHES[name]():
            figures.append(figure)
            print(figure, file=sys.stderr if args.json else sys.stdout, flush=True)
    if args.json:
        print(json.dumps([asdict(f) | {"good": f.good} for f in figures], indent=1))
    return 0 if all(figure.good for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
