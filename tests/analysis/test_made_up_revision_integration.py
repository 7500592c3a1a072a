"""A revision is data: edits of the tables alone add one, and what older revisions judge stays as it is."""

from pathlib import Path

import pytest

from tests.analysis.made_up_revision import FOLDER, TABLES, VERSION, copy_with_the_revision, edits, judged_in
from tests.analysis.test_corpus_integration import mistakes
from tests.analysis.traces import names, read

GROUPS = ("deprecated", "method", "mrtr", "version")
"""The files of the corpus that every run judges: those about what the revision changes."""


def test_only_tables_are_edited() -> None:
    assert [edit.file for edit in edits() if not edit.file.startswith(TABLES)] == []


def test_without_the_edits_its_messages_are_judged_by_the_revision_before() -> None:
    wrong = {case.name for case in read(FOLDER / f"{VERSION}.ndjson") if mistakes(case)}
    assert wrong >= {"new-method", "new-member-null", "newly-deprecated-method", "changed-kind-of-result"}


@pytest.mark.costly("a process loads and compiles a copy of the analysis")
def test_edits_of_tables_add_a_revision(tmp_path: Path) -> None:
    copy_with_the_revision(tmp_path)
    found = judged_in(tmp_path, GROUPS)
    assert found["made up"] == {}
    assert found["wrong"] == {}


@pytest.mark.soak
def test_everything_in_older_revisions_is_judged_as_before(tmp_path: Path) -> None:
    copy_with_the_revision(tmp_path)
    found = judged_in(tmp_path, names())
    assert found["cases"] > 1000
    assert found["wrong"] == {}
