"""Figures of the SparAMX paper, on a machine of the DECA paper."""

from sim.evaluations.registry import evaluation
from sim.models import resolve_model
from sim.scheme import resolve_weight_scheme
from sim.xeon import SYSTEMS, token

DDR = SYSTEMS["spr-ddr"]


@evaluation
def sparse_token_gain(model: str, scheme: str, batch: int, context: int) -> float:
    """Next token with plain bf16 over that with sparse weights, both in software; DDR."""
    shape = resolve_model(model)
    dense, sparse = (
        token(DDR, "software", resolve_weight_scheme(name), shape, batch, context).seconds
        for name in ("bf16", scheme)
    )
    return dense / sparse


@evaluation
def sparse_gain_grows(model: str) -> bool:
    """The sparser, the faster."""
    names = ("bf16_90%", "bf16_70%", "bf16_50%", "bf16_30%")
    gains = [sparse_token_gain(model, name, 1, 512) for name in names]
    return gains == sorted(gains)
