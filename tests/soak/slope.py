"""Does a series of measurements grow? A straight line through the means of equal parts, with its 95% interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from x2localizer.types import Floats

PARTS = 24
WARM_SHARE = 0.1
"""The start, in which caches fill, does not count."""
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12,
        2.11, 2.101, 2.093, 2.086, 2.08, 2.074)  # fmt: skip
"""Student's t for 95%, by degrees of freedom from 1 on."""


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth over the whole run: the line's, and the ends of its interval; and the level that it is compared with."""

    level: float
    growth: float
    low: float
    high: float

    def flat(self, share: float, absolute: float = 0.0) -> bool:
        """Whether the growth that is beyond doubt, if any, is at most a share of the level, or an amount."""
        return self.low <= max(share * abs(self.level), absolute)


def steadied(values: Floats, yardstick: Floats, parts: int = PARTS) -> Floats:
    """Values as they would be if the fixed work beside them had always taken its mean time."""
    out = values.copy()
    for part in np.array_split(np.arange(len(values)), min(parts, len(values))):
        out[part] *= yardstick.mean() / yardstick[part].mean()
    return out


def slope_of(values: Floats) -> Slope:
    """The slope of evenly spaced measurements, without the first tenth."""
    steady = values[int(WARM_SHARE * len(values)) :]
    parts = np.array([part.mean() for part in np.array_split(steady, min(PARTS, len(steady)))])
    x = np.linspace(-0.5, 0.5, len(parts))  # one run is one unit
    across = float((x * x).sum())
    growth = float((x * parts).sum() / across)
    rest = parts - parts.mean() - growth * x
    free = len(parts) - 2
    error = float(np.sqrt((rest**2).sum() / max(free, 1) / across)) * T_95[min(max(free, 1), len(T_95)) - 1]
    return Slope(float(parts.mean()), growth, growth - error, growth + error)
