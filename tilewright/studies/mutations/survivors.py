"""Why mutants that no bench finds, and no proof excuses, live: one reason each, found by hand."""

from tilewright.studies.mutations.judging import Mutant

__all__ = ["ALLOWED", "UNSEEN", "reason_of"]

_PLANES = "it is set as a group is loaded and counts only while one is there"
# The block may do that: its contract leaves it open.
ALLOWED = {
    ("anda_compressor:small", "\\planes: 5'00000 to 5'00001"): _PLANES,
    ("anda_compressor_lane:small", "\\planes: 5'00000 to 5'00001"): _PLANES,
    ("anda_compressor_lane:small", "\\saturated: 1'0 to 1'1"): (
        "every group sets it as it is loaded, and no word is valid before the first"
    ),
    ("anda_compressor:small", "\\exponent: 5'00000 to 5'00001"): (
        "every group sets it as it is loaded, and no word is valid before the first"
    ),
    ("harmonia_converter:small", "\\saturated: 2'00 to 2'01"): (
        "the first beat of every group clears it, so nobody reads what a reset leaves there"
    ),
    ("harmonia_converter:small", "\\largest_1_2: 5'00000 to 5'00001"): (
        "the first beat of every group sets it, so nobody reads what a reset leaves there"
    ),
    ("arbiter:tiny", "\\o__valid [0] taken as 1"): (
        "the turn starts again after a cycle without a request; nobody waits then, so the promise"
        " that an input sees every other one served at most once still holds"
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
