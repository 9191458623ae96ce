"""Errors whose text the command line prints instead of a traceback."""


class CommandError(Exception):
    """A command cannot go on; the text names what is wrong and, where possible, what to type."""


class CheckError(Exception):
    """A check failed, such as a test of a bench; the text, which is a result, says how."""
