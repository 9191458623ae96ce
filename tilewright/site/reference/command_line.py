"""The reference of the command line, from the parsers themselves."""

import argparse
from collections.abc import Iterable


def command_reference(parsers: Iterable[argparse.ArgumentParser]) -> str:
    """Markdown with a section per parser: what it does, usage, arguments, example."""
    return "\n".join(line for parser in parsers for line in _section(parser))


def _section(parser: argparse.ArgumentParser) -> list[str]:
    usage = parser.format_usage().removeprefix("usage: ").rstrip()
    lines = [f"## {parser.prog}", "", parser.description or "", "", "```text", usage, "```", ""]
    for group in parser._action_groups:
        actions = [a for a in group._group_actions if a.help != argparse.SUPPRESS]
        if actions:
            has_commands = isinstance(actions[0], argparse._SubParsersAction)
            title = "Commands" if has_commands else (group.title or "").capitalize()
            lines += [f"{title}:", "", *(line for a in actions for line in _entry(parser, a))]
    epilog = parser.epilog or ""
    if epilog.startswith("example:\n"):
        command = epilog.removeprefix("example:\n").strip()
        lines += ["Example:", "", "```console", f"$ {command}", "```", ""]
    elif epilog:
        lines += ["```text", epilog, "```", ""]
    return lines


def _entry(parser: argparse.ArgumentParser, action: argparse.Action) -> list[str]:
    """An argument and its help as an entry of a definition list."""
    if isinstance(action, argparse._SubParsersAction):
        listed = action._choices_actions
        return [line for sub in listed for line in (f"`{sub.dest}`", f": {sub.help}", "")]
    formatter = parser._get_formatter()
    words = formatter._format_action_invocation(action)
    text = formatter._expand_help(action) if action.help else ""
    return [f"`{words}`", f": {_plain(text)}", ""]


def _plain(text: str) -> str:
    """Help is plain text; what Markdown would read as markup is escaped."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>|$" else c for c in text) or "\\"
