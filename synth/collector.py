"""Python's cycle collector, at rest while a large structure is built.

The collector looks at every living object again and again. Where millions are made and nearly all
of them stay until the end, as in writing RTL, that is a fifth of the time for nothing.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# New objects between collections of the youngest; Python's default is some hundred. The oldest are
# collected a hundred times less often, so garbage in cycles is freed in the end.
THRESHOLD = 50_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect seldom within the block; afterwards as before."""
    before = gc.get_threshold()
    gc.set_threshold(THRESHOLD, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)
