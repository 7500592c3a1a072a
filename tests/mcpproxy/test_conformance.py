"""How verdicts of the official conformance suite are compared; `make conformance` fetches and runs the suite itself."""

from tests.conformance import differences


def test_a_verdict_that_differs_is_reported() -> None:
    direct = {("ping", "answers", 0): "SUCCESS", ("dns-rebinding-protection", "refuses", 0): "FAILURE"}
    recorded = {("ping", "answers", 0): "FAILURE", ("dns-rebinding-protection", "refuses", 0): "SUCCESS"}
    assert differences(direct, recorded) == ["ping: answers: SUCCESS directly, FAILURE through the recorder"]
    assert differences(direct, direct) == []
    assert differences(direct, {}) != []
