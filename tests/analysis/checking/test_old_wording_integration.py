"""A baseline that the previous version wrote accepts the same findings."""

import json
from pathlib import Path
from typing import Any, Final

from analysis.checking.baseline import Baseline, findings_by_fingerprint, fingerprint
from analysis.checking.old_wording import WORDING_CHANGES
from tests.analysis.traces import CORPUS, checked_once, read

WRITTEN: Final = Path(__file__).with_name("baseline-of-0.1.jsonl")
"""The baseline of version 0.1 for cases of the corpus: one entry for each text changed since, with the case."""
NOT_IN_A_TRACE: Final = {"shutdown/server-lingers"}
"""Traces have no signals, so this rule cannot report anything in them."""


def written() -> list[dict[str, Any]]:
    return [json.loads(line) for line in WRITTEN.read_bytes().splitlines()]


def test_a_baseline_of_the_previous_version_accepts_the_same_findings() -> None:
    rows = written()
    accepted = Baseline(findings_by_fingerprint(WRITTEN.read_bytes().splitlines()))
    assert len(accepted) == len(rows)
    corpus = {group: read(CORPUS / f"{group}.ndjson") for group in {row["capture"].split("/")[0] for row in rows}}
    for row in rows:
        group, name = row["capture"].removesuffix(".mcpcap").split("/")
        (case,) = (case for case in corpus[group] if case.name == name)
        found = [each.finding for each in checked_once(case) if each.rule == row["rule"]]
        marks = {fingerprint(each.rule, each.method, each.pointer, each.message) for each in found}
        assert any(mark in accepted for mark in marks), (row, [each.message for each in found])
        assert row["message"] not in {each.message for each in found}, row


def test_each_changed_text_has_an_entry_in_that_baseline() -> None:
    changed = [rule for rule, texts in WORDING_CHANGES.items() for _ in texts if rule not in NOT_IN_A_TRACE]
    assert sorted(row["rule"] for row in written()) == sorted(changed)
