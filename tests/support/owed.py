"""Evidence that is owed: what a report of today says is missing, and why it is accepted for now.

A line of :data:`PROBLEMS` is a problem that the report shows. Tests accept exactly these, and fail
when one of them is no longer true, so that whoever makes the evidence takes its line out.
"""

PROBLEMS = (
    "frontier/deca.asap7.json was made with other cells, tools or flow; to renew it:"
    " tilewright sweep --frontier deca --update-records",
)
# Frontiers whose records were made before clock gates were part of the flow.
FRONTIERS = (("deca", "asap7"),)
# Records of netlists that have no verdict yet.
PROOFS: frozenset[str] = frozenset(
    {
        "anda_apu__registered_true.asap7.json",
        "harmonia_pe__registered_true.asap7.json",
        "pe_figna__registered_true.asap7.json",
        "pe_figna__registered_true__mantissa_bits_11.asap7.json",
        "pe_figna__registered_true__mantissa_bits_8.asap7.json",
        "pe_figna_c__registered_true.asap7.json",
        "pe_fp_fp__registered_true.asap7.json",
        "pe_fp_int.asap7.json",
        "pe_fp_int.sky130hd.json",
        "pe_fp_int__registered_true.asap7.json",
        "pe_ifpu__registered_true.asap7.json",
        "ungated/pe_fp_int.asap7.json",
        "ungated/pe_fp_int.sky130hd.json",
    }
)
