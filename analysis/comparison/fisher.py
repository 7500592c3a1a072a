"""Statistics of error rates: Fisher's exact test, and Holm's correction for many tests at once."""

from collections.abc import Sequence
from math import exp, lgamma
from typing import Final

_TIE: Final = 1 + 1e-7
"""Probabilities that differ by less than this factor are equal but for rounding."""


def fisher_exact(old_failed: int, old_total: int, new_failed: int, new_total: int) -> float:
    """Returns the two-sided p-value: how probable it is that two error rates differ at least as much by chance.

    Args:
        old_failed: how many calls of the old side failed.
        old_total: of how many.
        new_failed: how many calls of the new side failed.
        new_total: of how many.
    """
    failed, total = old_failed + new_failed, old_total + new_total

    def log_choose(count: int, chosen: int) -> float:
        return lgamma(count + 1) - lgamma(chosen + 1) - lgamma(count - chosen + 1)

    def log_probability(old: int) -> float:
        return log_choose(old_total, old) + log_choose(new_total, failed - old) - log_choose(total, failed)

    observed = exp(log_probability(old_failed)) * _TIE
    probabilities = (exp(log_probability(old)) for old in range(max(0, failed - new_total), min(failed, old_total) + 1))
    return min(1.0, sum(probability for probability in probabilities if probability <= observed))


def rejected_by_holm(probabilities: Sequence[float], alpha: float) -> list[bool]:
    """Returns which of several hypotheses are rejected, so that the family-wise error rate is at most `alpha`."""
    rejected = [False] * len(probabilities)
    for rank, position in enumerate(sorted(range(len(probabilities)), key=probabilities.__getitem__)):
        if probabilities[position] > alpha / (len(probabilities) - rank):
            break
        rejected[position] = True
    return rejected
