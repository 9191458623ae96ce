"""The bus of a small processor: one access of 32 bits at a time."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

WORD_BITS = 32
WORD_BYTES = WORD_BITS // 8

# Seen from the processor. ``valid`` and the request hold until ``ready``, which takes the access
# and answers it, for one cycle. Without a strobe the access is a read.
WORD_BUS = wiring.Signature(
    {
        "valid": Out(1),
        "address": Out(32),
        "data": Out(WORD_BITS),
        "strobes": Out(WORD_BYTES),
        "ready": In(1),
        "answer": In(WORD_BITS),
    }
)
