"""Statistics of error rates, against published and counted values."""

import random

import pytest

from analysis.comparison.fisher import fisher_exact, rejected_by_holm


def test_the_probability_is_that_of_fishers_test() -> None:
    # Fisher's tea: 3 of 4 and 1 of 4.
    assert fisher_exact(3, 4, 1, 4) == pytest.approx(34 / 70)
    assert fisher_exact(4, 4, 0, 4) == pytest.approx(2 / 70)
    # The table of scipy's documentation.
    assert fisher_exact(6, 8, 2, 12) == pytest.approx(0.019, abs=5e-4)
    assert fisher_exact(0, 10, 0, 10) == 1
    assert fisher_exact(0, 0, 3, 5) == 1
    assert fisher_exact(10_000, 500_000, 20_000, 500_000) < 1e-9


def test_no_more_than_alpha_of_equal_sides_are_reported() -> None:
    chance = random.Random(50)
    reported = 0
    for _ in range(400):
        tables = [[sum(chance.random() < 0.2 for _ in range(40)) for _ in range(2)] for _ in range(5)]
        reported += any(rejected_by_holm([fisher_exact(old, 40, new, 40) for old, new in tables], 0.05))
    assert reported <= 400 * 0.05


def test_holm_stops_at_the_first_that_is_not_rejected() -> None:
    assert rejected_by_holm([0.01, 0.04, 0.03, 0.005], 0.05) == [True, False, False, True]
    assert rejected_by_holm([], 0.05) == []
