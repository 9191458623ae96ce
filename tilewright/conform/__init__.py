"""Whether an implementation of a low-bit format agrees with it, and what explains where not."""

from tilewright.conform.check import Report, assert_conforms, check

__all__ = ["Report", "assert_conforms", "check"]
