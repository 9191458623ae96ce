"""Arithmetic written as text, as claims have it: names, numbers, calls; nothing else of Python.

A claim names a size of our hardware (``sqq_lines * line_bytes``) or a formula of a paper
(``16 / (bits * density + 1)``) in its data. The text is parsed with ``ast`` and walked here, so
that a claim can read objects and call functions that it is given and can do nothing else.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from math import ceil, comb, exp, floor, log2
from statistics import fmean
from typing import Any

__all__ = ["FUNCTIONS", "value_of"]

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.USub: operator.neg,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda part, whole: part in whole,
}


def binomial_below(most: float, trials: int, chance: float) -> float:
    """Return the chance of at most ``most`` successes: the binomial distribution function."""
    return sum(
        comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
        for k in range(min(floor(most), trials) + 1)
    )


def total(function: Callable[[int], float], first: int, last: int) -> float:
    """Return the sum of ``function`` from ``first`` to ``last``, both included."""
    return sum(function(k) for k in range(first, last + 1))


def every(holds: Callable[[Any], bool], values: Any) -> bool:
    """Return whether something holds for all of some values."""
    return all(holds(value) for value in values)


def count(holds: Callable[[Any], bool], values: Any) -> int:
    """Return for how many of some values something holds."""
    return sum(bool(holds(value)) for value in values)


def mean(function: Callable[[Any], float], values: Any) -> float:
    """Return the mean of a function over some values."""
    return fmean(function(value) for value in values)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{"abs": abs, "ceil": ceil, "exp": exp, "len": len, "log2": log2, "max": max, "min": min},
    **{
        "round": round,
        "str": str,
        "sum": sum,
        "binomial_below": binomial_below,
        "total": total,
        "every": every,
    },
    **{"count": count, "mean": mean},
}


def value_of(text: str, *scopes: Mapping[str, Any]) -> Any:
    """Return the value of an expression over ``scopes``, the first first, and ``FUNCTIONS``.

    Attributes that begin with an underscore cannot be read.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{text!r} is no expression: {error.msg}") from None
    return _Walk(text, *scopes, FUNCTIONS).visit(tree)


class _Walk(ast.NodeVisitor):
    """The value of each kind of node that an expression may have."""

    def __init__(self, text: str, *scopes: Mapping[str, Any]):
        self.text, self.scopes = text, scopes  # the innermost first

    def generic_visit(self, node: ast.AST) -> Any:
        raise ValueError(f"{self.text!r}: an expression has no {type(node).__name__}")

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        for scope in self.scopes:
            if node.id in scope:
                return scope[node.id]
        raise ValueError(f"{self.text!r}: nothing is called {node.id!r}")

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.visit(node.value)
        if node.attr.startswith("_") or not hasattr(owner, node.attr):
            raise ValueError(f"{self.text!r}: {type(owner).__name__} has no {node.attr!r}")
        return getattr(owner, node.attr)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self.visit(node.value)[self.visit(node.slice)]

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.visit(part) for part in node.elts)

    def visit_List(self, node: ast.List) -> Any:
        return [self.visit(part) for part in node.elts]

    def visit_Dict(self, node: ast.Dict) -> Any:
        pairs = zip(node.keys, node.values, strict=True)
        return {self.visit(key): self.visit(value) for key, value in pairs if key is not None}

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return self._operator(node.op)(self.visit(node.operand))

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self._operator(node.op)(self.visit(node.left), self.visit(node.right))

    def visit_Compare(self, node: ast.Compare) -> Any:
        values = [self.visit(part) for part in (node.left, *node.comparators)]
        pairs = zip(node.ops, values, values[1:], strict=False)
        return all(self._operator(op)(left, right) for op, left, right in pairs)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        parts = (self.visit(part) for part in node.values)
        return all(parts) if isinstance(node.op, ast.And) else any(parts)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self.visit(node.body if self.visit(node.test) else node.orelse)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        names = [part.arg for part in node.args.args]

        def call(*values: Any) -> Any:
            inner = dict(zip(names, values, strict=True))
            return _Walk(self.text, inner, *self.scopes).visit(node.body)

        return call

    def visit_Call(self, node: ast.Call) -> Any:
        positional = [self.visit(part) for part in node.args]
        named = {part.arg: self.visit(part.value) for part in node.keywords if part.arg}
        return self.visit(node.func)(*positional, **named)

    def _operator(self, kind: ast.AST) -> Callable[..., Any]:
        if type(kind) not in OPERATORS:
            raise ValueError(f"{self.text!r}: an expression has no {type(kind).__name__}")
        return OPERATORS[type(kind)]
