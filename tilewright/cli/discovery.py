"""Which commands there are: the modules of ``tilewright/cli/commands``, and of packages in it.

A package may also have commands as objects, ``COMMANDS``, which have what a module has. A command
is named by the words that the user types, such as ``("list",)`` or ``("compare", "pe")``; the empty
tuple is ``tilewright`` itself, whose subcommands all commands are.
"""

import pkgutil
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from tilewright.base.errors import CommandError

ROOT = "tilewright.cli.commands"


def load_command(*words: str) -> Any:
    """Return the module, or the object, of the command that ``words`` name."""
    if words and words[-1] in (objects := _objects(*words[:-1])):
        return objects[words[-1]]
    return import_module(".".join((ROOT, *(word.replace(".", "_") for word in words))))


def command_names(*words: str) -> list[str]:
    """Return the names of the subcommands of the command ``words``, without words all commands."""
    folders = getattr(load_command(*words), "__path__", ())
    modules = (module.name.replace("_", ".") for module in pkgutil.iter_modules(folders))
    return sorted([*modules, *_objects(*words)])


def _objects(*words: str) -> Mapping[str, Any]:
    """Return the commands below the command ``words`` that are objects, by name."""
    found: Mapping[str, Any] = getattr(load_command(*words), "COMMANDS", {})
    return found


def all_commands(*words: str) -> list[tuple[str, ...]]:
    """Return every command below the command ``words``, each followed by its subcommands."""
    found: list[tuple[str, ...]] = []
    for name in command_names(*words):
        found += [(*words, name), *all_commands(*words, name)]
    return found


def find_command(argv: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Split a command line into the command that it names and all other words.

    Options may stand before a subcommand, so it is the first word that names one. Where no word
    does, the command itself decides what to make of the words.
    """
    first = next((word for word in argv if not word.startswith("-")), None)
    if first is None:
        return (), list(argv)
    if first not in command_names():
        from tilewright.golden.params.names import unknown

        raise CommandError(unknown("command", first, command_names()))
    words: tuple[str, ...] = (first,)
    rest = list(argv)
    rest.remove(first)
    while places := [k for k, word in enumerate(rest) if word in command_names(*words)]:
        # A word after an option may be its value; one after another word is not.
        place = min(places, key=lambda k: k > 0 and rest[k - 1].startswith("-"))
        words = (*words, rest.pop(place))
    return words, rest
