"""One module per command, found by its file name (:mod:`tilewright.cli.discovery`).

A command module imports nothing heavy at its top (``--help`` loads all of them) and has

- ``NAME``: what the user types, equal to the module's name; a point in the name is an underscore
  in the module's
- ``HELP``: one line for ``tilewright --help``
- ``EXAMPLE``: a command line that works as it stands, shown under ``--help`` and run by a test
- ``MORE_EXAMPLES``, only where one is too few
- ``EXAMPLE_NEEDS``, only where an example reads a file: the command line that makes it
- ``add_arguments(parser)``: its own options, by :func:`tilewright.cli.options.option`;
  ``--json`` is already there, as ``args.json``
- ``run(args) -> int``: the exit code: 0 fine, 1 a check failed; a refusal raises ``ValueError`` or
  ``tilewright.base.errors.CommandError``, whose text the user sees (exit code 2)

A command that is a package has subcommands: its modules, which follow the same rules. Such a
command has a ``METAVAR``, the word for a subcommand in help texts. Without a ``run`` of its own a
subcommand must be named; with one, it runs where none is.
"""

GROUPS = {
    "Run a language model": ("run", "compile"),
    "Design a block": (
        *("design", "list", "verilog", "simulate", "synth", "layout", "fpga"),
        *("sweep", "export"),
    ),
    "Ask for performance": ("llm", "gemm", "roofsurface", "compare"),
    "Measure what formats cost": ("search", "kv"),
    "Pack weights": ("pack", "unpack", "kernels"),
    "Check": ("conform", "claims", "report", "doctor", "completion"),
}
