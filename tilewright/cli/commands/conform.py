"""``tilewright conform``: whether an implementation of a low-bit format agrees with it."""

import argparse

from tilewright.base.console import print_json, print_table, remark, show
from tilewright.base.errors import CommandError
from tilewright.cli.options import adder
from tilewright.golden.params.names import unknown

NAME = "conform"
HELP = "check an implementation of a low-bit format, code by code, and name the rules it follows"
EXAMPLE = "tilewright conform ml_dtypes --format e4m3"
MORE_EXAMPLES = (
    "tilewright conform tilewright.golden.formats:FORMATS.mxfp4 --format mxfp4",
    "tilewright conform --vectors mxfp4 -o mxfp4.bin",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    text = "a library, or FILE.py:FUNCTION, MODULE:FUNCTION or a class; none: recorded results"
    add("subject SUBJECT", text, nargs="?")
    add("--format F", "the format, such as mxfp4; a library is checked in all of its formats")
    add("--decode FILE.py:FUNCTION", "check a decoder too; SUBJECT may be left out")
    add("--rule NAME=CHOICE...", "a rule other than the specification's: scale=rceil", dest="rules")
    add("--torch", "the functions take PyTorch's tensors")
    add("--formats", "list formats and their rules")
    add("--vectors F", "write the vectors of a format to the file of --output")
    add("-o --output FILE", "file of vectors")
    add(
        "--update-records",
        "check SUBJECT, a library, or all installed ones, and record the results",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.conform import drivers
    from tilewright.conform.check import check
    from tilewright.conform.subject import load

    if args.vectors or args.output:
        return _vectors(args)
    if args.formats:
        return _formats(args)
    if args.update_records:
        if args.subject and args.subject not in drivers.LIBRARIES:
            raise CommandError(unknown("library", args.subject, drivers.LIBRARIES))
        for line in drivers.update_records([args.subject] if args.subject else []):
            remark(line)
        return 0
    if not args.subject and not args.decode:
        table = drivers.table()
        print_json(drivers.load_records()) if args.json else show(table)
        return 0
    rules = {}
    for rule in args.rules:
        name, equals, choice = rule.partition("=")
        if not equals:
            raise CommandError(f"--rule takes NAME=CHOICE, not {rule!r}")
        rules[name] = choice
    if args.subject in drivers.LIBRARIES:
        reports = list(drivers.reports(args.subject, args.format, rules))
    else:
        if not args.format:
            raise CommandError("--format says which format this is; --formats lists them")
        encode, decode = load(args.subject, args.torch) if args.subject else (None, None)
        if args.decode:
            other, alone = load(args.decode, args.torch)
            decode = alone or other
        name = args.subject or args.decode
        reports = [check(args.format, encode, decode, name, rules)]
    if args.json:
        print_json(reports)
    elif len(reports) == 1:
        print(reports[0])
    else:
        print_table(
            ["FORMAT", "FUNCTION", "VERDICT"], [[r.format, r.subject, r.verdict] for r in reports]
        )
    return int(any(report.wrong for report in reports))


def _vectors(args: argparse.Namespace) -> int:
    from tilewright.conform.vectors import digest, file_of

    if not (args.vectors and args.output):
        raise CommandError("--vectors F goes with -o FILE")
    args.output.write_bytes(file_of(args.vectors))
    remark(f"{args.output}: {args.output.stat().st_size} bytes, SHA-256 {digest(args.vectors)}")
    return 0


def _formats(args: argparse.Namespace) -> int:
    from tilewright.golden.lowbit_table import LOWBIT

    def described(rules: dict[str, str]) -> str:
        return ", ".join(f"{n}={c}" for n, c in rules.items()) or "decoded only"

    if args.json:
        print_json(
            [{"format": n, "source": f.source, "axes": dict(f.axes)} for n, f in LOWBIT.items()]
        )
        return 0
    rows = [
        [n, f.bits, f.group, str(f.scale or "-"), f.source, described(dict(f.rules))]
        for n, f in LOWBIT.items()
    ]
    print_table(["FORMAT", "BITS", "GROUP", "SCALE", "DEFINED BY", "RULES"], rows)
    return 0
