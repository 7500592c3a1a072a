"""The values that findings quote: names and short values, truncated, and never anything that may be secret."""

import json

import pytest

from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.traces import CORPUS, check, read


def case_of(group: str, name: str) -> Case:
    return next(case for case in read(CORPUS / f"{group}.ndjson") if case.name == name)


def texts(case: Case, rule: str) -> list[str]:
    return [one.finding.message for one in check(case) if one.rule == rule]


def altered(case: Case, old: str, new: str) -> Case:
    (made,) = cases([json.dumps(case.members).replace(old, new).encode()])
    assert isinstance(made, Case)
    return made


@pytest.mark.parametrize(
    ("group", "name", "rule", "text"),
    [
        ("mrtr", "one-answer-missing", "mrtr/responses-missing", "1 of 2 input requests has no response: 'dirs'"),
        ("mrtr", "answer-misspelt", "mrtr/unknown-response-key", "the response 'Who' matches no input request"),
        ("mrtr", "answer-is-text", "mrtr/invalid-input-response", "the response 'who' is not a result of "),
        ("mrtr", "form-without-schema", "mrtr/invalid-input-request", "the input request 'a' does not fit: "),
        ("mrtr", "questions-in-an-array", "mrtr/invalid-input-request", "inputRequests does not fit: "),
        ("mrtr", "question-with-id", "mrtr/envelope-in-input-request", "the input request 'a' has id"),
        ("http-modern", "method-header-of-another", "http/method-header", "Mcp-Method is 'Tools/List', but the "),
        ("http-modern", "name-header-of-another", "http/name-header", "Mcp-Name is 'delete', but the name "),
        (
            "http-modern",
            "header-mismatch-accepted",
            "http/header-mismatch-accepted",
            "a request with wrong headers (MCP-Protocol-Version is '2025-11-25', but '2026-07-28' in the message)",
        ),
    ],
)
def test_a_finding_names_what_it_is_about(group: str, name: str, rule: str, text: str) -> None:
    assert any(found.startswith(text) for found in texts(case_of(group, name), rule))


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("_fastmcp", "its name begins with '_', not with a letter or digit"),
        ("com.example/cost.", "its name ends with '.', not with a letter or digit"),
        ("com.example/a/b", "its name contains '/'"),
        ("my key", "its name contains ' '"),
        ("com..example/cost", "its prefix has an empty label"),
        ("/cost", "its prefix is empty"),
        ("com.1st/cost", "the label '1st' of its prefix begins with '1', not with a letter"),
        ("com.ex-/cost", "the label 'ex-' of its prefix ends with '-', not with a letter or digit"),
        ("com.ex_ample/cost", "the label 'ex_ample' of its prefix contains '_'"),
        ("com.é/_", "the label 'é' of its prefix contains 'é'"),
    ],
)
def test_a_key_of_meta_says_which_part_is_at_fault(key: str, fault: str) -> None:
    found = texts(altered(case_of("meta", "key-of-another-form"), "_odd", key), "meta/invalid-key")
    assert found == [f"the key {key!r} of _meta is not of the form prefix/name: {fault}"]


def test_a_key_is_cut_and_no_character_of_it_acts() -> None:
    hostile = r"\\u202e\\n" + 1_000 * "x"
    (found,) = texts(altered(case_of("mrtr", "one-answer-missing"), "dirs", hostile), "mrtr/responses-missing")
    assert r"'\u202e\nxxx" in found
    assert len(found) < 200


def test_of_many_keys_some_are_named() -> None:
    case = case_of("mrtr", "one-answer-missing")
    asked = "".join(f'\\"k{number}\\":{{\\"method\\":\\"roots/list\\"}},' for number in range(50))
    (found,) = texts(altered(case, '\\"dirs\\":', f'{asked}\\"dirs\\":'), "mrtr/responses-missing")
    assert found == "51 of 52 input requests have no response: 'k0', 'k1', 'k2', …"


def test_an_address_in_a_header_is_not_shown() -> None:
    case = case_of("http-modern", "name-header-missing-of-resources-read")
    head = "Mcp-Method: resources/read"
    (found,) = texts(altered(case, head, rf"{head}\r\nMcp-Name: https://host/?token=secret"), "http/name-header")
    assert found == "Mcp-Name is not the uri in the message"
