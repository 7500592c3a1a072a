"""Many findings of one rule about one message: the first are reported, the others counted up to a limit."""

from collections.abc import Iterator
from typing import Any

import pytest

from analysis.rules.base import MAX_COUNTED_FINDINGS, MAX_REPORTED_FINDINGS, Rule
from analysis.rules.discovery import rules
from analysis.rules.finding import Finding, Level
from tests.analysis.conversation.test_crowds import Tape
from tests.analysis.judged import Judged

DRAFT = "http://json-schema.org/draft-07/schema#"


def found_in_list(rule: str, *tools: dict[str, Any]) -> list[Finding]:
    """The findings of a rule in a list of tools."""
    tape = Tape("stdio")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
    tape.say("c2s", id=0, method="initialize", params=hello)
    served = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": hello["clientInfo"]}
    tape.say("s2c", id=0, result=served)
    tape.say("c2s", method="notifications/initialized")
    tape.say("c2s", id=1, method="tools/list")
    tape.say("s2c", id=1, result={"tools": tools})
    checker = Judged([rules()[rule]])
    found = [one for item in tape.items for one in checker.feed(item)]
    assert checker.faults == {}
    return found


def tools(count: int) -> list[dict[str, Any]]:
    """Tools with odd names, whose schemas use an older draft."""
    return [{"name": f"tool {number}", "inputSchema": {"$schema": DRAFT, "type": "object"}} for number in range(count)]


@pytest.mark.parametrize("rule", ["tool/schema-dialect", "tool/name"])
@pytest.mark.parametrize(
    ("count", "counted"),
    [
        (1, 1),
        (MAX_REPORTED_FINDINGS, MAX_REPORTED_FINDINGS),
        (MAX_REPORTED_FINDINGS + 1, MAX_REPORTED_FINDINGS + 1),
        (3 * MAX_COUNTED_FINDINGS, MAX_COUNTED_FINDINGS),
    ],
)
def test_findings_beyond_the_limit_are_counted(rule: str, count: int, counted: int) -> None:
    found = found_in_list(rule, *tools(count))
    assert len(found) == min(count, MAX_REPORTED_FINDINGS)
    assert [one.more for one in found] == [0] * (len(found) - 1) + [counted - len(found)]
    assert len({one.pointer for one in found}) == len(found)


def test_of_shapes_too_what_is_beyond_those_that_are_told_is_counted() -> None:
    found = found_in_list("schema/invalid-result", *[{"inputSchema": {"type": "object"}}] * 57)
    assert (len(found), sum(one.finding_count for one in found)) == (MAX_REPORTED_FINDINGS, 57)
    assert found[-1].message.endswith("name is missing")


def test_no_more_findings_are_made_than_are_counted() -> None:
    made = 0

    def findings() -> Iterator[Finding]:
        nonlocal made
        while True:
            made += 1
            yield Finding("tool/name", Level.NOTE, "server", 1, made, "")

    kept = Rule.capped(findings(), 3)
    assert ([one.frame for one in kept], kept[-1].more, made) == (
        [1, 2, 3],
        MAX_COUNTED_FINDINGS - 3,
        MAX_COUNTED_FINDINGS,
    )
