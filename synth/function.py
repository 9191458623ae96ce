"""Boolean functions as Liberty writes them.

Not: ``!A`` or ``A'``; and: ``A * B``, ``A & B`` or ``A B``; or: ``A + B`` or ``A | B``; ``A ^ B``.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import and_, or_, xor

_TOKEN = re.compile(r"\s*(?:([A-Za-z_]\w*(?:\[\d+\])?)|([01])(?!\w)|([!&*|+^()'])|(\S))")

Evaluate = Callable[[dict[str, int], int], int]  # values of pins, all-ones word -> value


@dataclass(frozen=True)
class Function:
    """A function of pins; bits of an integer are independent cases."""

    pins: tuple[str, ...]  # in order of appearance
    verilog: str
    evaluate: Evaluate


@cache
def parse_function(text: str) -> Function:
    """Parse ``text``; anything but a function is refused."""
    parser = _Parser(text)
    verilog, evaluate = parser.expression()
    if parser.token:
        raise ValueError(f"function {text!r}: unexpected {parser.token!r}")
    return Function(tuple(parser.pins), verilog, evaluate)


def truth_table(function: Function, pins: tuple[str, ...]) -> int:
    """Bit k is the value where pin j has bit j of k."""
    cases = 1 << len(pins)
    values = {pin: sum((k >> j & 1) << k for k in range(cases)) for j, pin in enumerate(pins)}
    return function.evaluate(values, (1 << cases) - 1)


_LEVELS = ("|+", "&*", "^")  # operators, loosest first


class _Parser:
    """Recursive descent."""

    def __init__(self, text: str):
        self.text, self.place, self.pins = text, 0, dict[str, None]()
        self.token = self.kind = ""
        self.advance()

    def advance(self) -> None:
        match = _TOKEN.match(self.text, self.place)
        if match is None:
            self.token = self.kind = ""
            return
        self.place = match.end()
        self.token = match[0].strip()
        self.kind = ("pin", "constant", "operator", "error")[(match.lastindex or 1) - 1]
        if self.kind == "error":
            raise ValueError(f"function {self.text!r}: unexpected {self.token!r}")

    def expression(self, level: int = 0) -> tuple[str, Evaluate]:
        """Everything that binds at least as tight as the operators of ``level``."""
        if level == len(_LEVELS):
            return self.factor()
        operators, left = _LEVELS[level], self.expression(level + 1)
        while self.token and (self.token in operators or self.is_adjacent(level)):
            if self.token in operators:
                self.advance()
            left = _binary(operators[0], left, self.expression(level + 1))
        return left

    def is_adjacent(self, level: int) -> bool:
        """Whether an operand follows without an operator, which means and."""
        operand = self.token in ("!", "(") or self.kind in ("pin", "constant")
        return operand and _LEVELS[level] == "&*"

    def factor(self) -> tuple[str, Evaluate]:
        token, kind = self.token, self.kind
        if not token:
            raise ValueError(f"function {self.text!r} ends too early")
        self.advance()
        if token == "!":
            return _inverse(*self.factor())
        if token == "(":
            inner = self.expression()
            if self.token != ")":
                raise ValueError(f"function {self.text!r}: missing )")
            self.advance()
        elif kind == "pin":
            self.pins[token] = None
            inner = token, lambda values, ones: values[token]
        elif kind == "constant":
            inner = f"1'b{token}", lambda values, ones: ones if token == "1" else 0
        else:
            raise ValueError(f"function {self.text!r}: unexpected {token!r}")
        while self.token == "'":
            self.advance()
            inner = _inverse(*inner)
        return inner


def _inverse(verilog: str, evaluate: Evaluate) -> tuple[str, Evaluate]:
    return f"~{verilog}", lambda values, ones: ones ^ evaluate(values, ones)


def _binary(
    operator: str, left: tuple[str, Evaluate], right: tuple[str, Evaluate]
) -> tuple[str, Evaluate]:
    (text_a, a), (text_b, b) = left, right
    combine = {"|": or_, "&": and_, "^": xor}[operator]
    return (
        f"({text_a} {operator} {text_b})",
        lambda values, ones: combine(a(values, ones), b(values, ones)),
    )
