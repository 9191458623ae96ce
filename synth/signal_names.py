"""Names of signals that one statement makes, the same under every version of Python.

Amaranth reads a signal's name off the instruction that stores it. From version 3.13 on Python
stores two variables of one statement by a single instruction, which Amaranth 0.5 does not know: in
``first, last = Signal(), Signal()`` the second would lose the name that it has under 3.11 and 3.12,
and with other names the RTLIL would no longer be that of the records.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from opcode import opname
from types import CodeType
from typing import Any

from amaranth import tracer

# Both keep the variable that is stored first in the upper four bits of their argument.
_STORE_AND_MORE = ("STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST")


@contextmanager
def names_of_pairs() -> Iterator[None]:
    """While it is open, Amaranth finds names that are stored together with another variable."""
    usual = tracer.get_var_name

    def get_var_name(depth: int = 2, **default: Any) -> Any:
        frame = sys._getframe(depth)
        name = _stored_first(frame.f_code, frame.f_lasti)
        return usual(depth + 1, **default) if name is None else name

    tracer.get_var_name = get_var_name
    try:
        yield
    finally:
        tracer.get_var_name = usual


def _stored_first(code: CodeType, call: int) -> str | None:
    """The variable that the result of the call goes to, if another one shares the instruction."""
    store = call + 2
    while opname[code.co_code[store]] == "CACHE":
        store += 2
    if opname[code.co_code[store]] not in _STORE_AND_MORE:
        return None
    return code.co_varnames[code.co_code[store + 1] >> 4]
