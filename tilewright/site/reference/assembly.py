"""Colours for the assembly of the accelerators in the documentation."""

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, Text


class AssemblyLexer(RegexLexer):
    """Reads what ``tilewright.golden.machine.assembly`` assembles: one instruction in a line."""

    name = "Tilewright assembly"
    tokens = {  # noqa: RUF012 - the form that Pygments prescribes
        "root": [
            (r"^\s*[a-z_]+", Keyword),
            (r";.*", Comment.Single),
            (r"\b[rsi][0-9]+\b", Name.Variable),
            (r"#?-?(0x[0-9a-f]+|[0-9.]+(e[+-]?[0-9]+)?)", Number),
            (r"[a-z_][a-z_0-9]*", Name.Attribute),
            (r"[=+]", Operator),
            (r",", Punctuation),
            (r"\s+", Text),
        ]
    }
