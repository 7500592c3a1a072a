"""Baselines of accepted findings: which findings match one, and which files are refused as baselines."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.checking.baseline import Baseline, BaselineError, findings_by_fingerprint, fingerprint

ROW = {"rule": "id/duplicate-response", "method": "tools/call", "pointer": "/id", "message": "request 3 is answered"}
UUID = "0d3f6a5e-9b1c-4d72-80aa-55ff13579bdf"


def mark(**changes: str) -> str:
    return fingerprint(**{**ROW, **changes})


@pytest.mark.parametrize(
    "message",
    ["request 71 is answered", "request 1,204 is answered", "request 0.5 is answered", f"request {UUID} is answered"],
)
def test_what_differs_from_session_to_session_is_no_part_of_it(message: str) -> None:
    assert mark(message=message) == mark()


@pytest.mark.parametrize(
    "changes",
    [
        {"rule": "id/unknown-response"},
        {"method": "tools/list"},
        {"pointer": "/result"},
        {"message": "request 3 is answered twice"},
        {"message": "request -3 is answered"},
        {"message": "request 3a is answered"},
    ],
)
def test_rule_method_place_and_words_are(changes: dict[str, str]) -> None:
    assert mark(**changes) != mark()


def test_names_dates_and_codes_of_errors_are_words() -> None:
    different = {
        mark(message=text) for text in ("code -32601", "code -32602", "2025-06-18", "2025-11-25", "tool2", "tool3")
    }
    assert len(different) == 6


def test_members_cannot_run_into_each_other() -> None:
    assert fingerprint("a", "bc", "", "") != fingerprint("ab", "c", "", "")


def test_a_baseline_is_what_check_prints() -> None:
    lines = [
        json.dumps(ROW).encode() + b"\n",
        b"\n",
        json.dumps({"rule": "a/b", "message": "x", "method": None}).encode(),
    ]
    baseline = Baseline(findings_by_fingerprint(lines))
    assert len(baseline) == 2
    assert mark(message="request 9 is answered") in baseline
    assert fingerprint("a/b", "", "", "x") in baseline
    assert mark(rule="a/b") not in baseline


@pytest.mark.parametrize("line", [b"{", b"[]", b"7", b'{"rule":"a/b"}', b'{"rule":1,"message":"x"}', b"\xff"])
def test_what_is_no_finding_is_refused_with_its_line(line: bytes) -> None:
    with pytest.raises(BaselineError, match="line 2: expected"):
        findings_by_fingerprint([json.dumps(ROW).encode(), line])


@given(st.lists(st.binary()))
def test_any_lines_are_a_baseline_or_an_error(lines: list[bytes]) -> None:
    with suppress(BaselineError):
        assert len(findings_by_fingerprint(lines)) <= len(lines)


@given(st.text(), st.text())
def test_any_text_has_a_fingerprint_in_linear_time(method: str, message: str) -> None:
    assert len(fingerprint("a/b", method, "", message)) == 32


def test_a_hostile_message_takes_no_longer_than_it_is_long() -> None:
    for piece in ("1", "1,", "1.", "a-", "00000000-"):
        assert len(fingerprint("a/b", "", "", piece * 200_000 + "x")) == 32


def test_half_a_surrogate_pair_of_a_peer_spoils_no_baseline() -> None:
    row = ROW | {"message": "no request has the id \ud800"}
    line = json.dumps(row).encode()
    assert rb"\ud800" in line
    assert mark(message=row["message"]) in Baseline(findings_by_fingerprint([line]))


def test_what_is_guessed_makes_no_other_finding() -> None:
    plain = "no request has the id 9"
    assert mark(message=f"{plain}; probably meant for ping #3 (frame 4), the only request open then") == mark(
        message=plain
    )
