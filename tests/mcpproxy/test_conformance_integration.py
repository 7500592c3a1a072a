"""The official conformance suite gives a server the same result with the recorder as without."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import REVISIONS, Unavailable, compare, differences, fetch
from tests.harness import Place


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    place: Path = tmp_path_factory.mktemp("conformance")
    try:
        yield fetch("node", place)
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("revision", REVISIONS)
def test_verdicts_are_those_of_a_direct_run(place: Place, suite: list[str], revision: str) -> None:
    direct, recorded, _ = compare(place, suite, revision)
    assert differences(direct, recorded) == []
    passed = [key for key, status in direct.items() if status == "SUCCESS"]
    assert len(passed) > 50


def test_a_verdict_that_differs_is_told() -> None:
    direct = {("ping", "answers", 0): "SUCCESS", ("dns-rebinding-protection", "refuses", 0): "FAILURE"}
    recorded = {("ping", "answers", 0): "FAILURE", ("dns-rebinding-protection", "refuses", 0): "SUCCESS"}
    assert differences(direct, recorded) == ["ping: answers: SUCCESS directly, FAILURE through the recorder"]
    assert differences(direct, direct) == []
    assert differences(direct, {}) != []
