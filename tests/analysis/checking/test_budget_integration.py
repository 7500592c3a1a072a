"""The budget of the rules: a usual message is passed to few of them, regardless of how many there are."""

import json
from typing import Any

from analysis.checking.budget import MAX_COST_US, REASONS_FOR_COST, RULE_COSTS
from analysis.checking.checker import RuleSelection
from analysis.checking.profile import Costs
from analysis.reading import Reading
from analysis.rules.discovery import rules
from captures.envelope import judge_and_read
from captures.frame import Frame
from captures.record import Record
from captures.verdict import Direction
from tests.analysis.judged import step

MS = 1_000_000
CALLS = 20
TOOL = {"name": "add", "inputSchema": {"type": "object"}}


class _Talk:
    """A conversation on stdio that counts the calls of each rule."""

    def __init__(self) -> None:
        self.costs = Costs()
        self._reading = Reading(rules=RuleSelection(costs=self.costs))
        self._seq = 0
        step(self._reading, Record(0, "header", 0, {"transport": "stdio", "capture": "0", "observed_start": True}))
        peer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        info = {"name": "a", "version": "1"}
        self.say("c2s", id=0, method="initialize", params={**peer, "capabilities": {}, "clientInfo": info})
        self.say("s2c", id=0, result={**peer, "serverInfo": info})
        self.say("c2s", method="notifications/initialized")

    def say(self, direction: Direction, **members: Any) -> None:
        """Feed a message, which no rule may report."""
        self._seq += 1
        raw = json.dumps({"jsonrpc": "2.0", **members}).encode()
        verdict, body, is_as_written = judge_and_read(raw, direction, "line", whole=True, limit=len(raw))
        frame = Frame(self._seq, self._seq * MS, direction, raw, verdict, body=body, is_as_written=is_as_written)
        assert step(self._reading, frame).findings == []

    def of_a_call(self) -> dict[str, float]:
        """How often each rule is called for one `tools/call` and its result."""
        before = {id_: cost.calls for id_, cost in self.costs.rules.items()}
        for id_ in range(100, 100 + CALLS):
            self.say("c2s", id=id_, method="tools/call", params={"name": "add", "arguments": {"a": id_}})
            self.say("s2c", id=id_, result={"content": [{"type": "text", "text": "4"}]})
        counts = {id_: (cost.calls - before.get(id_, 0)) / CALLS for id_, cost in self.costs.rules.items()}
        return {id_: count for id_, count in counts.items() if count}


def test_a_call_of_a_tool_without_a_list_is_shown_to_three_rules() -> None:
    assert _Talk().of_a_call() == {"version/mixed-on-connection": 1, "tool/repeated-call": 2, "timeout/slow": 1}


def test_rules_about_a_list_are_called_once_there_is_one() -> None:
    talk = _Talk()
    talk.say("c2s", id=1, method="tools/list")
    talk.say("s2c", id=1, result={"tools": [TOOL]})
    called = talk.of_a_call()
    assert {"tool/unlisted", "tool/arguments-invalid", "tool/structured-missing"} < called.keys()
    assert sum(called.values()) <= 8


def test_the_budget_names_rules_that_there_are_and_says_why_one_exceeds_it() -> None:
    assert RULE_COSTS.keys() <= rules().keys()
    assert {id_ for id_, cost in RULE_COSTS.items() if cost > MAX_COST_US} == REASONS_FOR_COST.keys()
