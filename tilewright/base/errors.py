"""Errors that are the user's to mend: the command line prints their text, not a traceback."""

__all__ = ["CommandError"]


class CommandError(Exception):
    """A command cannot go on; the text names what is wrong and, where possible, what to type."""
