"""95% intervals of shares of questions, and of their changes."""

from math import sqrt

__all__ = ["changed_interval", "interval"]

Z = 1.959964  # of a 95% interval


def interval(right: int, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    share = right / count
    centre = (share + Z * Z / (2 * count)) / (1 + Z * Z / count)
    reach = Z / (1 + Z * Z / count) * sqrt(share * (1 - share) / count + (Z / (2 * count)) ** 2)
    low, high = centre - reach, centre + reach
    return (low if right else 0.0), (high if right < count else 1.0)  # without rounding


def changed_interval(gained: int, lost: int, count: int) -> tuple[float, float]:
    """95% interval of the change of a share, of the same questions asked twice.

    That of Agresti and Min, which adds half a question to each of the four outcomes: it stays wide
    where few questions turn.
    """
    total = count + 2
    change = (gained - lost) / total
    reach = Z * sqrt(gained + lost + 1 - (gained - lost) ** 2 / total) / total
    return change - reach, change + reach
