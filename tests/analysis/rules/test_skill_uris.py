"""URIs of skills: which spellings mean the same, what the directory is, and which names are valid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.rules.support.skill_uris import (
    authority_of,
    common_form,
    is_path_segment,
    last_segment,
    name_fault,
    parent_directories,
    skill_root,
)


@pytest.mark.parametrize(
    ("uri", "form"),
    [
        ("skill://a/SKILL.md", "skill://a/SKILL.md"),
        ("SKILL://A/b/../%63/./SKILL.md", "skill://A/c/SKILL.md"),
        ("skill://a/%2f/x%20y", "skill://a/%2F/x%20y"),
        ("skill://a/../../b/", "skill://a/b"),
        ("file:///a/b?v=1#c", "file:///a/b?v=1#c"),
        ("urn:a:b", "urn:a:b"),
        ("no uri", "no uri"),
    ],
)
def test_spellings_of_one_uri_have_one_form(uri: str, form: str) -> None:
    assert common_form(uri) == form
    assert common_form(form) == form


def test_a_skill_is_the_directory_of_its_file() -> None:
    roots = {
        "skill://acme/refunds/SKILL.md": "skill://acme/refunds",
        "github://o/r/refunds/SKILL.md?ref=main": "github://o/r/refunds",
        "skill://refunds": None,
        "skill://refunds/skill.md": None,
        "skill://SKILL.md": "skill:/",
    }
    assert {uri: skill_root(uri) for uri in roots} == roots
    assert last_segment("skill://acme/%C3%BCber") == "über"
    assert last_segment("skill:/") == ""
    assert parent_directories("skill://a/b/c.md") == ["skill://a/b", "skill://a"]
    assert parent_directories("skill://a") == []


def test_names_are_short_and_in_lower_case_with_single_hyphens() -> None:
    faulty = ["", "a" * 65, "-a", "a-", "a--b", "A", "a_b", "a b", "é É"]
    assert [name for name in ["a", "0-1", "a" * 64, "über", *faulty] if name_fault(name)] == faulty


def test_an_authority_may_be_more_than_a_segment() -> None:
    assert authority_of("skill://u@acme:80/a/SKILL.md") == "u@acme:80"
    assert authority_of("urn:a") == ""
    assert [text for text in ("acme", "u@acme", "acme:80", "[::1]") if is_path_segment(text)] == ["acme"]


@given(text=st.text(max_size=40) | st.text(alphabet="a:/.%2f?#", max_size=40))
def test_any_text_has_a_stable_form(text: str) -> None:
    form = common_form(text)
    assert common_form(form) == form
    assert len(parent_directories(form)) <= form.count("/")
