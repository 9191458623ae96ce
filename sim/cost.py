"""What tokens cost, from prices that the user gives: hardware or its rent, and electricity."""

from dataclasses import dataclass, fields

from tilewright.golden.params.block import require
from tilewright.golden.params.names import unknown
from tilewright.sim.system import Quantity, in_base_unit, parse_settings

__all__ = ["PRICES", "Cost", "Prices", "parse_prices"]

HOURS_OF_A_YEAR = 24 * 365.25
PRICES = {
    "hardware": Quantity(
        "dollars of a socket with its memory, or of an accelerator", "count", 0, 1e9
    ),
    "years": Quantity("until it is written off", "count", 0.01, 100),
    "hour": Quantity("dollars of an hour of it, if it is rented", "count", 0, 1e6),
    "energy": Quantity("dollars of a kilowatt-hour", "count", 0, 1e3),
    "overhead": Quantity("watts of the building for a watt of it", "count", 1, 10),
    "use": Quantity("share of the time in which it has work", "fraction", 0.001, 1),
}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Dollars of a million tokens."""

    hardware: float
    energy: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.hardware + self.energy


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices of one socket or accelerator and of electricity; ``PRICES`` says what each is.

    Hardware is bought (``hardware``, ``years``) or rented (``hour``).
    """

    hardware: float = 0.0
    years: float = 4.0
    hour: float = 0.0
    energy: float = 0.0
    overhead: float = 1.0
    use: float = 1.0

    def __post_init__(self) -> None:
        require(
            not (self.hardware and self.hour), "hardware is bought or rented: give one, not both"
        )
        require(
            bool(self.hardware or self.hour or self.energy),
            "prices need hardware, hour or energy in dollars",
        )

    def cost(self, tokens_per_second: float, joules_per_token: float, devices: int) -> Cost:
        """Return the cost of a million tokens at this rate, while there is work."""
        hourly = self.hour or self.hardware / (self.years * HOURS_OF_A_YEAR)
        hours = 1e6 / tokens_per_second / 3600 / self.use
        kilowatt_hours = 1e6 * joules_per_token / 3.6e6 * self.overhead
        return Cost(hardware=devices * hourly * hours, energy=self.energy * kilowatt_hours)


def parse_prices(text: str) -> Prices:
    """Return the prices of ``hardware=9000,years=4,energy=0.15,...``."""
    found = {}
    for name, value in parse_settings(text).items():
        if name not in PRICES:
            raise ValueError(unknown("price", name, [field.name for field in fields(Prices)]))
        found[name] = in_base_unit(name, PRICES[name], value)
    return Prices(**found)
