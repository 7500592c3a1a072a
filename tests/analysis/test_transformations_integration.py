"""Conversations over HTTP from the corpus, changed in ways that must not change what is reported about them."""

import pytest

from tests.analysis.traces import corpus
from tests.analysis.transformations import TRANSFORMATIONS

PICKED = 9
"""The suite changes every ninth conversation; `make soak` changes all."""


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(PICKED, marks=pytest.mark.costly("two checks for each of 70 conversations")),
        pytest.param(1, marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("change", TRANSFORMATIONS)
def test_a_change_that_adds_nothing_wrong_changes_no_judgement(change: str, step: int) -> None:
    told = [case for _, case in corpus() if case.transport != "stdio"]
    step *= 3 if change == "a recording that breaks off" and step > 1 else 1
    wrong = [f"{case.name}: {change} {what}" for case in told[::step] for what in TRANSFORMATIONS[change](case)]
    assert len(told) > 500
    assert not wrong, "\n".join(wrong)
