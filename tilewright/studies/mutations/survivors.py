"""Why mutants that no bench finds, and no proof excuses, live: one reason each, found by hand."""

from tilewright.studies.mutations.judging import Mutant

__all__ = ["ALLOWED", "NO_DIFFERENCE", "UNSEEN", "reason_of"]

# By block, cell or process, and change.
Reasons = dict[tuple[str, str, str], str]

# The block may do that: its contract leaves it open.
ALLOWED: Reasons = {
    ("arbiter:tiny", "process $60", "\\o__valid [0] taken as 1"): (
        "the turn starts again after a cycle without a request; nobody waits then, so the promise"
        " that an input sees every other one served at most once still holds"
    ),
    ("register_slice:tiny", "process $15", "\\i__ready: 1'1 to 1'0"): (
        "it takes its first word a cycle later after a reset and loses none; when a stream is ready"
        " is promised nowhere"
    ),
    ("pe_ifpu:small", "process $923", "if not \\scaled_valid [0]"): (
        "sums of groups never come in two cycles in a row, for a weight has several beats; a cycle"
        " without one does what that with it should have done"
    ),
    ("pe_ifpu:small", "process $901", "\\i__ready [0] taken as 1"): (
        "the exponent of a group's end is taken while the beat still waits; that of the group"
        " before would be lost if it ended on the beat before, but a weight has several beats, and"
        " a group ends on the last of them"
    ),
    ("deca:small", "process $107", "$39 [0] taken as 1"): (
        "the turn of the three structures starts again after a cycle in which none has a line to"
        " prefetch; nobody waits then, and golden promises which lines are prefetched, not their"
        " order"
    ),
}
# No input shows it: argued, for no proof was found in the time that there is for one.
NO_DIFFERENCE: Reasons = {
    ("pe_ifpu:small", "$lt $845", "2'01 to 2'10"): (
        "it shows in a sum that is subnormal in fp32 (two bits, signed: below -2); scaled sums are"
        " multiples of 2^-49, so a sum of them is 0 or normal"
    ),
} | {
    (block, cell, f"32'{0:032b} to 32'{1:032b}"): (
        "a sum starts at 2^-149, not 0; scaled sums are multiples of 2^-48, so that the first that"
        " is not 0 rounds it away, and if all are 0 it is +0 in fp16"
    )
    for block, cell in (("pe_figna_c:small", "$mux $340"), ("harmonia_pe:small", "$mux $895"))
}
# An error that the bench does not look for.
UNSEEN: Reasons = {
    ("anda:small", "$add $408", "\\counters [554] at 0"): (
        "the counter of compressed groups is wrong from 2^26 groups on, which take at least"
        " as many cycles; a bench would have to begin with a larger count"
    ),
}


def reason_of(block: str, mutant: Mutant) -> str:
    """Return what is known about a survivor, or that it was not looked at."""
    key = (block, mutant.where.rpartition(", ")[2], mutant.change)
    for word, reasons in (
        ("allowed", ALLOWED),
        ("no difference", NO_DIFFERENCE),
        ("unseen", UNSEEN),
    ):
        if key in reasons:
            return f"{word}: {reasons[key]}"
    return "not explained yet"
