"""A series that grows is told from one that only wavers."""

from __future__ import annotations

import numpy as np
import pytest

from soak.slope import slope_of, steadied


def test_a_line_has_its_own_slope() -> None:
    slope = slope_of(np.linspace(100.0, 200.0, 1001))
    assert slope.growth == pytest.approx(90.0, rel=0.05)  # of the nine tenths that count
    assert slope.low <= slope.growth <= slope.high
    assert not slope.flat(0.05)


def test_noise_is_flat() -> None:
    rng = np.random.default_rng(0)
    flats = [slope_of(100.0 + rng.normal(0.0, 20.0, 600)).flat(0.0, 0.0) for _ in range(200)]
    assert np.mean(flats) > 0.94  # one side of a 95% interval


def test_a_leak_under_noise_is_seen() -> None:
    rng = np.random.default_rng(0)
    leak = slope_of(100.0 + rng.normal(0.0, 5.0, 2000) + np.linspace(0.0, 30.0, 2000))
    assert not leak.flat(0.05, 5.0)


def test_a_machine_that_slows_down_is_no_growth() -> None:
    slower = np.linspace(1.0, 3.0, 2400)
    assert not slope_of(10.0 * slower).flat(0.1)
    assert slope_of(steadied(10.0 * slower, 0.5 * slower)).flat(0.01)
    assert not slope_of(steadied(10.0 * slower * slower, 0.5 * slower)).flat(0.1)  # it slows down by itself as well


def test_the_start_does_not_count() -> None:
    values = np.full(1000, 50.0)
    values[:90] = 10.0
    assert slope_of(values).flat(0.01)
