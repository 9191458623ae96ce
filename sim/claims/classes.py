"""What kind of agreement a claim can show; counts are stated by these classes, never in one sum."""

from enum import StrEnum

__all__ = ["COUNTED", "MEASURED", "ClaimClass"]


class ClaimClass(StrEnum):
    """The class of an evaluated claim.

    A prediction or a measurement can fail: its value was not used to get ours. The other classes
    say why agreement is less than that.
    """

    PREDICTION = "prediction"  # out of sample: no constant was fitted to it
    RTL = "measured on our RTL"
    SILICON = "measured on silicon"
    NETLIST = "from a netlist"
    MODEL = "measured on open models"  # perplexities and tasks of models that everybody can have
    FITTED = "fitted"  # a constant of the model was fitted to it
    DERIVED = "derived from fitted"  # arithmetic on figures that constants were fitted to
    IDENTITY = "identity"  # a definition, or a formula beside the same formula
    CONSISTENCY = "consistency of the paper"  # printed values are our inputs
    BOUND = "bound"  # at least, at most, or a trend of predictions
    STATEMENT = "statement shown by a test"
    PARAMETER = "parameter of our hardware"


MEASURED = (ClaimClass.RTL, ClaimClass.SILICON, ClaimClass.NETLIST, ClaimClass.MODEL)
COUNTED = (ClaimClass.PREDICTION, *MEASURED)  # of the headline
