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
}
# No input shows it: argued, for no proof was found in the time that there is for one.
NO_DIFFERENCE: Reasons = {
    ("int8_quantiser:small", "process $811", f"\\largest_0_1: 15'{0:015b} to 15'{1:015b}"): (
        "the first value of a group replaces what was the largest, and nothing reads the largest"
        " before a group is complete"
    ),
    ("pe_fp_fp:small", "process $2986", "\\i__valid [0] taken as 1"): (
        "whether a beat's products are infinite is kept of a cycle without a beat, too;"
        " products_valid is 0 then, and the sum does not change"
    ),
    ("pe_fp_int:small", "$eq $852", "8'11111110 to 8'11111111"): (
        "it shows in a sum that overflows fp32 as it is rounded; scaled sums of groups are below"
        " 2^37, and a sum of fp32 that is 2^62 or more does not grow by these"
    ),
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
    ("fork:tiny", "process $23", "\\served: 2'00 to 2'01"): (
        "it shows in the first cycle after a reset alone, and the bench sends its first word a"
        " cycle later; in Amaranth's simulator (tests/hw) words come in that cycle"
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
