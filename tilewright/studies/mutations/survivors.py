"""Why mutants that no bench finds, and no proof excuses, live: one reason each, found by hand."""

from tilewright.studies.mutations.judging import Mutant

__all__ = ["ALLOWED", "UNSEEN", "reason_of"]

# The block may do that: its contract leaves it open.
ALLOWED = {
    ("arbiter:tiny", "\\o__valid [0] taken as 1"): (
        "the turn starts again after a cycle without a request; nobody waits then, so the promise"
        " that an input sees every other one served at most once still holds"
    ),
    ("register_slice:tiny", "\\i__ready: 1'1 to 1'0"): (
        "it takes its first word a cycle later after a reset and loses none; when a stream is ready"
        " is promised nowhere"
    ),
    ("pe_ifpu:small", "if not \\scaled_valid [0]"): (
        "sums of groups never come in two cycles in a row, for a weight has several beats; a cycle"
        " without one does what that with it should have done"
    ),
}
# An error that the bench does not look for.
UNSEEN = {
    ("fork:tiny", "\\served: 2'00 to 2'01"): (
        "it shows in the first cycle after a reset alone, and the bench sends its first word a"
        " cycle later; in Amaranth's simulator (tests/hw) words come in that cycle"
    ),
}


def reason_of(block: str, mutant: Mutant) -> str:
    """Return what is known about a survivor, or that it was not looked at."""
    key = (block, mutant.change)
    if key in ALLOWED:
        return f"allowed: {ALLOWED[key]}"
    return f"unseen: {UNSEEN[key]}" if key in UNSEEN else "not explained yet"
