"""A revision is data: edits of the tables alone add one, and what older revisions judge stays as it is."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.analysis.made_up_revision import FOLDER, TABLES, VERSION, copy_with_the_revision, edits, judged_in
from tests.analysis.test_corpus_integration import mistakes
from tests.analysis.traces import names, read

GROUPS = ("deprecated", "method", "mrtr", "version")
"""The files of the corpus that every run judges: those about what the revision changes."""
CHANGED = {"list-asks-back"}
"""Cases of the revision before that the made-up one judges otherwise: it allows what they do."""


def test_only_tables_are_edited() -> None:
    assert [edit.file for edit in edits() if not edit.file.startswith(TABLES)] == []


def test_without_the_edits_its_messages_are_judged_by_the_revision_before() -> None:
    wrong = {case.name for case in read(FOLDER / f"{VERSION}.ndjson") if mistakes(case)}
    assert wrong >= {"new-method", "new-member-null", "newly-deprecated-method", "changed-kind-of-result"}


@pytest.mark.costly("a process loads and compiles a copy of the analysis")
def test_edits_of_tables_add_a_revision(tmp_path: Path) -> None:
    assert_only_changes_differ(tmp_path, GROUPS)


@pytest.mark.soak
def test_edits_of_tables_change_nothing_else(tmp_path: Path) -> None:
    assert_only_changes_differ(tmp_path, names())


def assert_only_changes_differ(folder: Path, groups: Sequence[str]) -> None:
    copy_with_the_revision(folder)
    found = judged_in(folder, groups)
    assert found["counts"]["old"] > 200
    assert found["counts"]["moved"] > 50
    assert found["made up"] == {}
    assert found["old"] == {}
    assert found["moved"].keys() == CHANGED
