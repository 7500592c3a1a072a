"""Findings for other programs: JSON, JUnit, SARIF and GitHub's commands, each checked against what readers require.

The requirements of the SARIF and JUnit schemas are repeated here for machines without npm, and are stricter: only the
members that are named may occur.
"""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.bounded_dict import ForgottenEntries
from analysis.rules.discovery import rules
from analysis.rules.finding import Level
from mcpproxy.check_run.result import LocatedFinding, RecordLocation
from mcpproxy.report.findings_json import JsonReporter
from mcpproxy.report.github import GithubReporter, relative_path
from mcpproxy.report.junit import CLEAN_CASE, MAX_LISTED_FINDINGS, JunitReporter
from mcpproxy.report.sarif import SarifReporter, escaped_text, uri_of
from mcpproxy.sanitise import sanitise
from tests.mcpproxy.report.findings import FOREIGN, anything, found, written

ASKED = {rule: made for rule, made in rules().items() if rule.startswith("id/")}
FOUNDS = st.lists(anything, max_size=6)


# ---- JSON


@given(FOUNDS)
def test_json_is_an_object_a_line_with_all_its_members(founds: list[LocatedFinding]) -> None:
    rows = [json.loads(line) for line in written(JsonReporter(), founds).split("\n")[:-1]]
    told = [one for one in founds if not one.is_accepted]
    assert [row["rule"] for row in rows] == [one.finding.rule for one in told]
    names = "capture rule level impact blames session frame item related more method message pointer source t_ns at"
    for row, one in zip(rows, told, strict=True):
        assert list(row) == [*names.split(), "fingerprint", "forgotten"]
        assert row["frame"] == one.finding.frame
        assert row["message"].encode("utf-8", "replace") == one.finding.message.encode("utf-8", "replace")


def test_json_tells_wall_time_where_it_is_known() -> None:
    assert json.loads(written(JsonReporter(), [found()]))["at"] is None
    at = json.loads(written(JsonReporter(), [found(wall_ns=1_795_000_000_000_000_000)]))["at"]
    assert at == "2026-11-18T11:06:40.001500000Z"
    assert json.loads(written(JsonReporter(), [found(wall_ns=-5)]))["at"] is None


# ---- JUnit


def checked(document: str) -> ET.Element:
    """Returns a JUnit document after checking that it has the form that its readers know."""
    root = ET.fromstring(document)
    sums = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    assert (root.tag, set(root.attrib)) == ("testsuites", {"name", "tests", "failures", "errors"})
    for suite in root:
        assert (suite.tag, set(suite.attrib)) == ("testsuite", {"name", "tests", *sums.values()})
        for tag, name in sums.items():
            assert len(suite.findall(f"testcase/{tag}")) == int(suite.attrib[name])
        assert len(suite) == int(suite.attrib["tests"]) > 0
        assert {case.attrib["classname"] for case in suite} == {suite.attrib["name"]}
        names = [case.attrib["name"] for case in suite]
        assert len(set(names)) == len(names)
        for case in suite:
            assert (case.tag, set(case.attrib)) == ("testcase", {"classname", "name"})
            tags = [child.tag for child in case]
            assert tags in ([], ["failure"], ["error"], ["skipped"], ["system-out"], ["failure", "system-out"])
            for child in case:
                assert set(child.attrib) == ({"message", "type"} if child.tag in ("failure", "error") else set())
    for name in ("tests", "failures", "errors"):
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in root)
    return root


def outcomes(root: ET.Element) -> dict[str, list[str]]:
    """Returns the test cases of a document by name, each with the tags inside it."""
    return {case.attrib["name"]: [child.tag for child in case] for case in root.iterfind("testsuite/testcase")}


@given(FOUNDS, st.booleans())
def test_junit_is_well_formed_whatever_was_found(founds: list[LocatedFinding], notes: bool) -> None:
    root = checked(written(JunitReporter(notes=notes), founds))
    least = Level.NOTE if notes else Level.WARNING
    failing = {one.finding.rule for one in founds if not one.is_accepted and one.finding.level >= least}
    assert {name for name, held in outcomes(root).items() if "failure" in held} == failing


def test_junit_has_a_case_for_each_rule_that_found_something_and_tells_the_first_of_many() -> None:
    founds = [found(seq=seq) for seq in range(MAX_LISTED_FINDINGS + 5)]
    root = checked(written(JunitReporter(), [*founds, found("id/float-integer", Level.NOTE)]))
    assert outcomes(root) == {"id/null": ["failure"], "id/float-integer": ["system-out"]}
    failure = root.find("testsuite/testcase[@name='id/null']/failure")
    assert failure is not None
    assert failure.text is not None
    assert failure.text.splitlines()[-1] == "and 5 more"
    assert len(failure.text.splitlines()) == MAX_LISTED_FINDINGS + 1
    note = root.find("testsuite/testcase[@name='id/float-integer']/system-out")
    assert note is not None
    assert note.text is not None
    assert "it is wrong" in note.text


def test_junit_has_one_passing_case_for_a_clean_capture() -> None:
    accepted, note = found(is_accepted=True), found("id/float-integer", Level.NOTE)
    assert outcomes(checked(written(JunitReporter(), [accepted]))) == {CLEAN_CASE: []}
    assert outcomes(checked(written(JunitReporter(), [note]))) == {"id/float-integer": ["system-out"], CLEAN_CASE: []}
    for asked in (JunitReporter(notes=True), JunitReporter(named={"id/float-integer"})):
        assert outcomes(checked(written(asked, [note]))) == {"id/float-integer": ["failure"]}


def test_junit_skips_what_could_not_be_checked() -> None:
    root = checked(written(JunitReporter(), [], nothing="it holds no frames"))
    assert outcomes(root) == {CLEAN_CASE: ["skipped"]}
    assert outcomes(checked(written(JunitReporter(), [], damaged=True))) == {CLEAN_CASE: ["error"]}


def test_junit_tells_the_place() -> None:
    one = found()
    one = one._replace(finding=one.finding._replace(pointer="/result/tools/17", item=2))
    failure = checked(written(JunitReporter(), [one])).find("testsuite/testcase/failure")
    assert failure is not None
    assert failure.attrib["message"] == "it is wrong, at /result/tools/17"
    assert failure.text == "some.mcpcap: error: server, session 1, frame 1 item 2: it is wrong, at /result/tools/17"


def test_junit_tells_a_rule_that_failed_as_an_error() -> None:
    root = checked(written(JunitReporter(), [], faults={"id/null": f"KeyError: {FOREIGN}"}))
    assert outcomes(root) == {"id/null": ["error"]}


# ---- SARIF

TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "markdown": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}


def one_of(required: str, optional: str = "", **properties: Any) -> dict[str, Any]:
    """Returns the schema of an object with these members and no others."""
    assert set(properties) == {*required.split(), *optional.split()}
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


RULE = one_of(
    "id shortDescription help defaultConfiguration",
    id={"type": "string"},
    shortDescription=TEXT,
    help=TEXT,
    defaultConfiguration=one_of("level", level=LEVEL),
)
LOCATION = one_of(
    "physicalLocation",
    physicalLocation=one_of(
        "artifactLocation",
        "region",
        artifactLocation=one_of("uri", uri={"type": "string", "pattern": r"^(?:[\w.~!$&'()*+,;=:@/-]|%[0-9A-F]{2})+$"}),
        region=one_of(
            "startLine byteOffset byteLength",
            startLine={"type": "integer", "minimum": 1},
            byteOffset={"type": "integer", "minimum": 0},
            byteLength={"type": "integer", "minimum": 0},
        ),
    ),
)
RESULT = one_of(
    "ruleId level message locations partialFingerprints properties",
    "ruleIndex suppressions",
    ruleId={"type": "string"},
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=TEXT,
    locations={"type": "array", "items": LOCATION},
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    properties={"type": "object"},
    suppressions={
        "type": "array",
        "items": one_of(
            "kind status",
            kind={"enum": ["inSource", "external"]},
            status={"enum": ["accepted", "underReview", "rejected"]},
        ),
    },
)
INVOCATION = one_of(
    "executionSuccessful toolExecutionNotifications",
    executionSuccessful={"type": "boolean"},
    toolExecutionNotifications={"type": "array", "items": one_of("level message", level=LEVEL, message=TEXT)},
)
DRIVER = one_of(
    "name version rules",
    name={"type": "string"},
    version={"type": "string"},
    rules={"type": "array", "items": RULE, "uniqueItems": True},
)
SARIF = {
    "type": "object",
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": one_of(
                "tool results columnKind invocations",
                tool=one_of("driver", driver=DRIVER),
                results={"type": "array", "items": RESULT},
                columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                invocations={"type": "array", "items": INVOCATION},
            ),
        },
    },
    "required": ["$schema", "version", "runs"],
    "additionalProperties": False,
}
"""What SARIF 2.1.0 requires of the members that mcpproxy writes."""


def run_in(document: str) -> Any:
    """Returns the run of a SARIF document, after validating the document."""
    read = json.loads(document)
    jsonschema.Draft7Validator(SARIF).validate(read)
    return read["runs"][0]


def test_the_schema_refuses_what_is_no_sarif() -> None:
    read = json.loads(written(SarifReporter(ASKED), [found()]))
    read["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(SARIF).validate(read)


@given(FOUNDS)
def test_sarif_is_valid_whatever_was_found(founds: list[LocatedFinding]) -> None:
    run = run_in(written(SarifReporter(ASKED), founds))
    assert len(run["results"]) == len(founds)
    for result, one in zip(run["results"], founds, strict=True):
        assert result["ruleId"] == one.finding.rule
        assert ("suppressions" in result) == one.is_accepted
        if "ruleIndex" in result:
            assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == one.finding.rule


def test_sarif_holds_only_the_rules_that_have_results() -> None:
    run = run_in(written(SarifReporter(ASKED), [found(), found()]))
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [found().finding.rule]
    assert run_in(written(SarifReporter(ASKED), []))["tool"]["driver"]["rules"] == []


def test_sarif_names_file_line_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one = found(place=RecordLocation(tmp_path / "a b.2.mcpcap", 305, 127, 2))
    (result,) = run_in(written(SarifReporter(ASKED), [one]))["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20b.2.mcpcap"
    assert place["region"] == {"startLine": 2, "byteOffset": 305, "byteLength": 127}


def test_sarif_tells_the_place() -> None:
    one = found()
    one = one._replace(finding=one.finding._replace(pointer="/result/a[0]"))
    (result,) = run_in(written(SarifReporter(ASKED), [one]))["results"]
    assert result["message"]["text"] == r"it is wrong, at /result/a\[0\]"
    assert result["properties"]["pointer"] == "/result/a[0]"


def test_sarif_says_that_a_rule_failed() -> None:
    (invocation,) = run_in(written(SarifReporter(ASKED), [], faults={"id/null": FOREIGN}))["invocations"]
    assert invocation["executionSuccessful"] is False
    assert len(invocation["toolExecutionNotifications"]) == 1


def test_foreign_text_makes_neither_links_nor_placeholders_in_sarif() -> None:
    assert escaped_text(r"[click](http://x) \[ {0}") == r"\[click\](http://x) \\\[ {{0}}"


@pytest.mark.parametrize("name", ["a:b.mcpcap", "%41.mcpcap", "größer.mcpcap", "a?b#c.mcpcap", "a\nb.mcpcap"])
def test_the_address_of_a_file_means_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    shown = uri_of(tmp_path / name)
    assert unquote(shown) == name
    assert not re.match(r"[^/]*:", shown)
    assert uri_of(Path("/elsewhere") / name) == f"file:///elsewhere/{shown}"


# ---- GitHub

COMMAND = re.compile(r"::(?:error|warning|notice) title=[^,:]+,file=[^,:]+(?:,line=\d+)?::[^\r\n]*")


@given(FOUNDS, st.booleans())
def test_github_gets_one_command_for_a_finding_and_no_other(founds: list[LocatedFinding], notes: bool) -> None:
    *commands, sums = written(GithubReporter(notes=notes), founds).split("\n")[:-1]
    least = Level.NOTE if notes else Level.WARNING
    assert len(commands) == sum(not one.is_accepted and one.finding.level >= least for one in founds)
    for command in commands:
        assert COMMAND.fullmatch(command)
        assert sanitise(command, None) == command
    assert not sums.startswith("::")


def test_github_reads_back_what_was_written() -> None:
    (command,) = written(GithubReporter(), [found(message="50% of it\nis wrong")]).split("\n")[:1]
    assert command == "::error title=id/null,file=some.mcpcap::server, frame 1: 50%25 of it\\nis wrong"


def test_github_says_how_to_see_the_notes_that_are_only_counted() -> None:
    note = found()
    note = note._replace(finding=note.finding._replace(level=Level.NOTE))
    assert written(GithubReporter(), [note, note]).endswith(" Show them with --notes.\n")
    assert "--notes" not in written(GithubReporter(notes=True), [note]) + written(GithubReporter(), [found()])


def test_github_is_told_the_place() -> None:
    one = found()
    one = one._replace(finding=one.finding._replace(pointer="/result/a%b", item=2))
    assert "::server, frame 1 item 2: it is wrong, at /result/a%25b\n" in written(GithubReporter(), [one])


def test_a_file_is_named_from_the_working_directory_where_it_lies_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real/captures").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real/inward").symlink_to(tmp_path / "real/captures")
    monkeypatch.chdir(tmp_path / "link")
    for path in ("captures/a.mcpcap", "./captures/../captures/a.mcpcap", tmp_path / "link/captures/a.mcpcap"):
        assert relative_path(Path(path)) == "captures/a.mcpcap"
    assert relative_path(tmp_path / "real/captures/a.mcpcap") == "captures/a.mcpcap"
    assert relative_path(Path("inward/a.mcpcap")) == "inward/a.mcpcap"
    assert relative_path(tmp_path / "real2/a.mcpcap") == str(tmp_path / "real2/a.mcpcap")
    assert "file=captures/a.mcpcap:" in written(GithubReporter(), [found(capture=tmp_path / "link/captures/a.mcpcap")])


def test_github_knows_file_and_line() -> None:
    one = found(place=RecordLocation(Path("a,b:c.mcpcap"), 305, 127, 2), level=Level.WARNING)
    assert written(GithubReporter(), [one]).startswith("::warning title=id/null,file=a%2Cb%3Ac.mcpcap,line=2::")


# ---- forgotten requests

REQUESTS = ForgottenEntries(
    "requests", 12_345, "more than 50,000, or 16 MiB, were open at once", "answers [to] it are <new>"
)


def test_json_tells_with_each_finding_what_had_been_forgotten() -> None:
    told = [found(), found()._replace(forgotten=(REQUESTS,))]
    rows = [json.loads(line) for line in written(JsonReporter(), told).splitlines()]
    assert [row["forgotten"] for row in rows] == [[], [{"what": "requests", "count": 12_345}]]


def test_junit_tells_beside_its_cases_what_was_forgotten() -> None:
    suite = ET.fromstring(written(JunitReporter(), [], forgotten=(REQUESTS,)))[0]
    assert [child.tag for child in suite] == ["testcase", "system-err"]
    assert suite[1].text == REQUESTS.text
    assert "system-err" not in written(JunitReporter(), [])


def test_sarif_tells_what_was_forgotten_and_has_not_failed() -> None:
    (run,) = json.loads(written(SarifReporter(ASKED), [], forgotten=(REQUESTS,)))["runs"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is True
    (told,) = invocation["toolExecutionNotifications"]
    assert told["level"] == "warning"
    assert told["message"]["text"].endswith(escaped_text(REQUESTS.text))


def test_github_warns_of_what_was_forgotten() -> None:
    (line, _) = written(GithubReporter(), [], forgotten=(REQUESTS,)).splitlines()
    assert line.startswith("::warning title=forgotten,file=")
    assert line.endswith(f"::{REQUESTS.text}")
