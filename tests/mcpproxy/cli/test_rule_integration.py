"""`mcpproxy rule`: the list, the pages, and the reference generated from them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from analysis.protocol.revisions import REVISIONS, era_of
from analysis.rules.discovery import rules
from mcpproxy.cli.rule import unknown_rule_error
from mcpproxy.wording.rule_pages import (
    MARKS,
    addresses,
    facts,
    is_in_revision,
    level_in,
    marks,
    page,
    reference_files,
    sections,
    summary_of,
)
from tests.mcpproxy.cli.typed import mcpproxy, on_terminal

ROOT = Path(__file__).parents[3]


def listed(*arguments: str) -> list[dict[str, Any]]:
    done = mcpproxy("rule", "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.splitlines()]


def ids(*arguments: str) -> list[str]:
    return [row["id"] for row in listed(*arguments)]


def test_the_list_holds_every_rule_under_its_group() -> None:
    text = mcpproxy("rule").stdout.decode()
    assert re.findall(r"^  (?:error|warning|note) +(\S+)", text, re.MULTILINE) == list(rules())
    assert "id  ids of requests, and the responses that match them\n" in text
    assert ids() == list(rules())


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_a_list_fits_on_a_terminal_and_breaks_between_words(columns: int) -> None:
    shown = re.sub(rb"\x1b\[[0-9;]*m", b"", on_terminal("rule", columns=columns)).decode()
    # An id is never split between lines.
    assert max(len(line) for line in shown.splitlines() if "/" not in line or len(line.split()) > 2) <= columns
    piped = mcpproxy("rule").stdout.decode()
    assert shown.split() == piped.split()
    assert len(piped.splitlines()) < len(shown.splitlines()) or columns == 200


def test_rules_are_chosen_by_group_level_version_and_mark() -> None:
    assert ids("--group", "id", "--level", "warning") == ["id/unsafe-integer"]
    assert "id/duplicate-request" not in ids("--version", "2026-07-28")
    assert "id/duplicate-request" in ids("--version", "2025-11-25")
    assert ids("--group", "id", "--mark", "S") == ["id/unknown-response", "id/self-answered"]


def test_a_level_is_that_of_the_revision_where_one_is_asked_for() -> None:
    lingers = ["--group", "shutdown", "--level", "warning"]
    assert "shutdown/server-lingers" in ids(*lingers)
    assert "shutdown/server-lingers" in ids(*lingers, "--version", "2026-07-28")
    assert "shutdown/server-lingers" not in ids(*lingers, "--version", "2025-11-25")
    told = mcpproxy("rule", "--group", "shutdown", "--version", "2025-11-25").stdout.decode()
    assert re.search("^  note     shutdown/server-lingers ", told, re.MULTILINE)


def test_the_level_in_a_revision_is_that_of_findings() -> None:
    for rule in rules().values():
        for rank, revision in enumerate(REVISIONS):
            if is_in_revision(rule, revision):
                assert level_in(rule, revision) == str(rule().level_at(rank, era_of(rank))), rule.id


def test_an_unknown_group_is_a_mistake() -> None:
    done = mcpproxy("rule", "--group", "ids")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"there is no group ids" in done.stderr


def test_where_no_rule_fits_all_that_was_asked_for_stderr_says_so() -> None:
    done = mcpproxy("rule", "--json", "--group", "framing", "--mark", "T")
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.startswith(b"mcpproxy: no rule matches all the options; ")


def test_a_pattern_lists_the_rules_that_it_fits() -> None:
    assert ids("id/*") == ids("--group", "id")
    assert ids("id/n*", "*/bom") == ["framing/bom", "id/null", "id/not-string-or-integer"]
    assert ids("id/*", "--level", "warning") == ["id/unsafe-integer"]
    both = mcpproxy("rule", "id/null", "*/bom").stdout.decode()
    assert both.index("framing/bom  ") < both.index("\n\nid/null\n")
    done = mcpproxy("rule", "ids/*")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no rule matches ids/*" in done.stderr


def test_a_group_is_no_rule_and_its_pattern_is_named() -> None:
    done = mcpproxy("rule", "id")
    assert (done.returncode, done.stderr) == (2, b"mcpproxy: id is a group of rules; id/* matches all of them\n")


def test_a_page_says_what_why_how_and_instead() -> None:
    text = mcpproxy("rule", "id/type-changed").stdout.decode()
    lines = text.splitlines()
    assert lines[0] == "id/type-changed"
    assert lines[2] == "A response has the id of its request, but as another JSON type."
    headings = [line for line in lines if line in ("Why it matters", "On the wire", "Instead")]
    assert headings == ["Why it matters", "On the wire", "Instead"]
    assert lines[-2] == "source      2024-11-05 basic/messages"
    assert lines[-1] == "  https://modelcontextprotocol.io/specification/2024-11-05/basic/messages"
    assert max(map(len, lines)) <= 80


def test_pages_of_several_rules_follow_each_other() -> None:
    done = mcpproxy("rule", "id/null", "id/nil", "id/type-changed")
    assert done.returncode == 2
    assert re.findall(r"^id/\S+$", done.stdout.decode(), re.MULTILINE) == ["id/null", "id/type-changed"]
    assert b"there is no rule id/nil; perhaps id/null" in done.stderr


def test_the_name_of_an_extension_leads_to_the_extensions() -> None:
    hint = "docs/extensions.md lists the extensions that have rules"
    for name in ("com.example/foo", "ext-foo/bar"):
        assert unknown_rule_error(name) == f"there is no rule {name}; {hint}"
    name = "io.modelcontextprotocol/skills"
    assert unknown_rule_error(name) == f"{name} is an extension; ext-skills/* matches its rules"
    assert "perhaps ext-skills/undeclared" in unknown_rule_error("ext-skills/undeclard")


def test_a_page_as_json() -> None:
    (row,) = listed("id/type-changed")
    assert row["id"] == "id/type-changed"
    assert list(row["sections"]) == ["Why it matters", "On the wire", "Instead"]
    assert row["page"].startswith(row["summary"])


def test_a_rule_that_there_is_not_is_named_harmlessly() -> None:
    assert b"there is no rule \\x1b(0;" in mcpproxy("rule", "\x1b(0").stderr


def test_every_rule_has_a_whole_page() -> None:
    for rule in rules().values():
        assert re.fullmatch(r"[A-Z`].*\.", summary_of(rule)), (rule.id, summary_of(rule))
        assert [heading for heading, _ in sections(rule)] == ["Why it matters", "On the wire", "Instead"], rule.id
        assert all(text for _, text in sections(rule)), rule.id
        assert rule.source, rule.id


SPECIFICATION = "https://modelcontextprotocol.io/specification"


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("2024-11-05 basic/messages", [f"{SPECIFICATION}/2024-11-05/basic/messages"]),
        ("2026-07-28 basic/index", [f"{SPECIFICATION}/2026-07-28/basic"]),
        (
            "2024-11-05 basic/transports (stdio); 2025-03-26 basic/transports",
            [f"{SPECIFICATION}/2024-11-05/basic/transports", f"{SPECIFICATION}/2025-03-26/basic/transports"],
        ),
        (
            "2026-07-28 basic/transports/stdio, streamable-http (backward compatibility)",
            [f"{SPECIFICATION}/2026-07-28/basic/transports/{page}" for page in ("stdio", "streamable-http")],
        ),
        (
            "2025-06-18 changelog, basic/transports; JSON-RPC 2.0 §4, §5",
            [
                *(f"{SPECIFICATION}/2025-06-18/{page}" for page in ("changelog", "basic/transports")),
                "https://www.jsonrpc.org/specification",
            ],
        ),
        ("2025-11-25 schema JSONRPCErrorResponse", [f"{SPECIFICATION}/2025-11-25/schema#jsonrpcerrorresponse"]),
        (
            "2026-07-28 basic/versioning, schema",
            [f"{SPECIFICATION}/2026-07-28/{x}" for x in ("basic/versioning", "schema")],
        ),
        (
            "2024-11-05 schema (error message)",
            ["https://github.com/modelcontextprotocol/modelcontextprotocol/blob/main/schema/2024-11-05/schema.ts"],
        ),
        ("SEP-2663", ["https://github.com/modelcontextprotocol/modelcontextprotocol/issues/2663"]),
        ("WHATWG SSE §9.2.6", ["https://html.spec.whatwg.org/multipage/server-sent-events.html"]),
        ("RFC 8259 §8.1", ["https://www.rfc-editor.org/rfc/rfc8259#section-8.1"]),
        ("the schema of the revision in force", []),
        ("observed in SDKs; no limit in the specification", []),
    ],
)
def test_a_source_has_the_addresses_of_its_documents(source: str, wanted: list[str]) -> None:
    assert addresses(source) == wanted


def test_every_source_can_be_looked_up() -> None:
    for rule in rules().values():
        found = addresses(rule.source)
        assert found or "revision in force" in rule.source or rule.source.startswith("observed in "), rule.id
        assert all(re.fullmatch(r"https://[a-z.-]+(?:/[A-Za-z0-9.-]+)+(?:#[a-z0-9.-]+)?", one) for one in found), found
        dates = {date for one in found for date in re.findall(r"\d{4}-\d\d-\d\d", one)}
        assert dates == set(re.findall(r"\d{4}-\d\d-\d\d", rule.source)), rule.id


def test_marks_and_levels_of_a_page_are_those_of_the_class() -> None:
    assert marks(rules()["id/unknown-response"]) == "SG"
    assert ("", MARKS["S"][1]) in facts(rules()["id/unknown-response"])
    assert ("revisions", f"≤{REVISIONS[3]}") in facts(rules()["id/duplicate-request"])


def test_every_rule_applies_to_some_revision_and_has_levels_in_those_alone() -> None:
    for rule in rules().values():
        assert any(is_in_revision(rule, revision) for revision in REVISIONS), rule.id
        for span in rule.levels:
            own = [revision for rank, revision in enumerate(REVISIONS) if span.applies_to(rank, None)]
            assert any(is_in_revision(rule, revision) for revision in own), (rule.id, str(span))


def test_revisions_to_which_a_rule_applies() -> None:
    def ranks(rule: str) -> list[int]:
        return [rank for rank, revision in enumerate(REVISIONS) if is_in_revision(rules()[rule], revision)]

    assert ranks("framing/bom") == [0, 1, 2, 3, 4]
    assert ranks("batch/not-supported-version") == [0, 2, 3, 4]
    assert ranks("batch/mixed-kinds") == [1]
    assert ranks("id/duplicate-request") == [0, 1, 2, 3]
    assert ranks("modern/missing-meta") == [4]
    assert ranks("cancel/by-disconnect") == [1, 2, 3]


def test_the_reference_is_up_to_date() -> None:
    there = {path.name: path.read_text("utf-8") for path in (ROOT / "docs/rules").glob("*.md")}
    assert sorted(there) == sorted(reference_files()), "run `make rules-docs`"
    assert [name for name, text in reference_files().items() if there[name] != text] == [], "run `make rules-docs`"


def test_the_reference_holds_every_page() -> None:
    text = "".join(reference_files().values())
    assert [rule for rule, made in rules().items() if f"\n## {rule}\n\n{page(made)}\n" not in text] == []
