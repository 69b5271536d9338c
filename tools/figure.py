"""One measured value, beside what it is compared with."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """`ratio` is value / the value of `against`; both are None when there is nothing to compare with."""

    name: str
    value: float
    unit: str
    ratio: float | None = None
    against: str | None = None
