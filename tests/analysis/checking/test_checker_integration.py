"""The checker raises nothing on any input, cites existing frames, and reports the same for equivalent conversations."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.call import MessageContext
from analysis.protocol.methods import METHODS, UNPREFIXED_NOTIFICATIONS
from analysis.protocol.revisions import REVISIONS
from analysis.rules.base import ERROR, Rule
from analysis.rules.finding import Finding, Level
from captures.envelope import judge
from captures.frame import Frame
from captures.record import Record
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.http_trace import ASKED, SERVED, notification, request, result
from tests.analysis.judged import Judged
from tests.analysis.traces import check, checked, checked_once, corpus, grave, stdio
from tests.examples import examples

# ---- any input

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "1", "complete", "input_required", "task", *REVISIONS, "2.0", "a/b", "https://a/b", "\ud800"]),
)
names = st.sampled_from(
    [
        *(
            "_meta",
            "name",
            "uri",
            "arguments",
            "cursor",
            "nextCursor",
            "content",
            "type",
            "text",
            "tools",
            "inputSchema",
        ),
        *(
            "protocolVersion",
            "capabilities",
            "clientInfo",
            "serverInfo",
            "requestId",
            "progressToken",
            "progress",
            "task",
        ),
        *("resultType", "supportedVersions", "data", "supported", "requested", "code", "message", "level", "status"),
        *("io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities", "elicitations"),
    ]
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5), max_leaves=12
)
methods = st.sampled_from([*METHODS, *UNPREFIXED_NOTIFICATIONS, "rpc.x", "nonsense", "notifications/x"])
members = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2, None]),
        "id": st.one_of(st.integers(0, 3), st.sampled_from(["1", "2", None, True, 1.0, 1.5, {}, []])),
        "method": methods | scalars,
        "params": values,
        "result": values,
        "error": values
        | st.fixed_dictionaries(
            {"code": st.sampled_from([-32700, -32600, -32601, -32602, -32020, -32022, 1, "x"]), "message": scalars}
        ),
        "extra": scalars,
    },
)
sound = st.fixed_dictionaries({"jsonrpc": st.just("2.0")}).flatmap(
    lambda base: st.one_of(
        st.fixed_dictionaries(
            {"id": st.integers(0, 3), "method": methods, "params": st.dictionaries(names, values, max_size=4)}
        ),
        st.fixed_dictionaries({"method": methods, "params": st.dictionaries(names, values, max_size=4)}),
        st.fixed_dictionaries({"id": st.integers(0, 3), "result": st.dictionaries(names, values, max_size=4)}),
        st.fixed_dictionaries(
            {
                "id": st.integers(0, 3),
                "error": st.fixed_dictionaries({"code": st.just(-32601), "message": st.just("no")}),
            }
        ),
    ).map(lambda rest: base | rest)
)
texts = st.one_of(
    (sound | members).map(lambda value: json.dumps(value).encode()),
    st.lists(members | sound | scalars, max_size=3).map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=20),
    st.sampled_from(
        [b"", b" ", b"{", b"}", b"[", b"Content-Length: 5", b'{"a":1}{"b":2}', b"\xef\xbb\xbf{}", b'{"a":NaN}']
    ),
)
frames = st.tuples(
    st.sampled_from(["c2s", "s2c"]), texts, st.sampled_from([b"\n", b"\r\n", b""]), st.integers(0, 3), st.booleans()
)
others = st.tuples(
    st.sampled_from(["eof", "process", "signal", "stderr", "stall", "gap", "exchange", "stream", "close", "header"]),
    st.dictionaries(
        st.sampled_from(
            [
                "dir",
                "event",
                "status",
                "signal",
                "name",
                "exchange",
                "stage",
                "request",
                "response",
                "headers",
                "ended_by",
                "peer",
                "uri_key",
                "observed_start",
                "transport",
            ]
        ),
        values | st.sampled_from(["c2s", "s2c", "ended", "sent", "end", "request", "http", "stdio"]),
        max_size=5,
    ),
)


def items(script: list[Any], *, over_http: bool) -> list[Frame | Record]:
    found: list[Frame | Record] = [
        Record(0, "header", 0, {"transport": "http" if over_http else "stdio", "observed_start": True, "capture": "c"})
    ]
    for seq, step in enumerate(script, 1):
        t_ns = seq * 700_000_000
        if len(step) == 2:
            found.append(Record(seq, step[0], t_ns, step[1]))
            continue
        direction, raw, delim, exchange, whole = step
        if over_http:
            unit = "sse_event" if direction == "s2c" and whole else "http_body"
            verdict = judge(raw, direction, "http_body")
            found.append(
                Frame(
                    seq,
                    t_ns,
                    direction,
                    raw,
                    verdict,
                    conn=1,
                    exchange=exchange,
                    unit="http_body" if unit != "sse_event" else "sse_event",
                )
            )
        else:
            found.append(Frame(seq, t_ns, direction, raw, judge(raw, direction, whole=whole), delim=delim, whole=whole))
    return found


def run(found: list[Frame | Record]) -> list[Finding]:
    checker = Judged()
    findings = [finding for item in found for finding in checker.feed(item)]
    findings += checker.finish("closed")
    assert checker.faults == {}
    return findings


@examples(40)
@given(st.lists(frames | others, max_size=12), st.booleans())
def test_it_raises_nothing_and_cites_what_exists(script: list[Any], over_http: bool) -> None:
    found = items(script, over_http=over_http)
    numbers = {item.seq for item in found}
    for finding in run(found):
        assert finding.frame in numbers, finding
        assert numbers.issuperset(finding.related), finding
        assert finding.message
        assert len(finding.message) < 500
        assert finding.pointer == "" or finding.pointer.startswith("/")


@examples(40)
@given(st.lists(frames | others, max_size=10), st.integers(0, 10))
def test_followed_live_it_says_the_same(script: list[Any], pause: int) -> None:
    found = items(script, over_http=False)
    checker, live = Judged(), list[Finding]()
    for number, item in enumerate(found):
        if number == pause:
            live += checker.advance(item.t_ns - 1)  # the clock was read in between
        live += checker.feed(item)
    live += checker.finish("closed")
    assert Counter(live) == Counter(run(found))


def test_a_rule_that_raises_is_switched_off_and_named() -> None:
    class Broken(Rule):
        """A rule whose hook raises."""

        id = "id/null"
        level = ERROR

        def on_request(self, context: MessageContext) -> list[Finding]:
            raise KeyError("oops")

    class BrokenEarlier(Broken):
        """A rule that raises as soon as it is asked which messages concern it."""

        id = "id/fraction"

        def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
            raise IndexError(method)

    checker = Judged([Broken, BrokenEarlier])
    for item in items([("c2s", b'{"jsonrpc":"2.0","id":1,"method":"ping"}', b"\n", 0, True)] * 3, over_http=False):
        assert checker.feed(item) == []
    assert checker.faults == {"id/null": "KeyError: 'oops'", "id/fraction": "IndexError: ping"}


# ---- equivalent conversations


def on_stdio() -> list[Case]:
    others = ("id", "jsonrpc", "framing", "error", "schema")
    return [case for group, case in corpus() if case.transport == "stdio" and group not in others]


def changed(case: Case, change: Callable[[Any], Any]) -> Case:
    """The same case, with `change` applied to each message that is JSON."""
    told = []
    for frame in case.members["frames"]:
        one = dict(frame)
        with contextlib.suppress(ValueError, KeyError):
            one["raw"] = json.dumps(change(json.loads(frame["raw"])))
        told.append(one)
    (made,) = cases([json.dumps(case.members | {"frames": told}).encode()])
    assert isinstance(made, Case)
    return made


def renamed(value: Any) -> Any:
    """A message with all ids replaced one to one, both in requests and in members that refer to them."""
    if isinstance(value, list):
        return [renamed(item) for item in value]
    if not isinstance(value, dict):
        return value
    names = ("id", "requestId", "toolUseId", "progressToken", "io.modelcontextprotocol/subscriptionId")
    return {
        name: (inner + 7_000 if type(inner) is int else _renamed_text(inner))
        if name in names and type(inner) in (int, str)
        else renamed(inner)
        for name, inner in value.items()
    }


def _renamed_text(text: str) -> str:
    """A string of digits stays one: a response to 7 with the id "7" still answers 7."""
    return str(int(text) + 7_000) if text.isascii() and text.isdigit() else f"r-{text}"


def is_json(case: Case) -> bool:
    """Whether every message is a single line of JSON."""
    try:
        return [json.loads(frame["raw"]) for frame in case.members["frames"] if frame["raw"]] != []
    except (ValueError, KeyError):
        return False


def turned(value: Any) -> Any:
    """A value with the members of every object in reverse order."""
    if isinstance(value, dict):
        return {name: turned(inner) for name, inner in reversed(value.items())}
    return [turned(inner) for inner in value] if isinstance(value, list) else value


SHARE = 16
"""The suite transforms one in this many cases; `make soak` transforms all."""


def changed_findings(every_nth: int) -> list[str]:
    """The cases whose findings change with other ids and reversed members."""
    cases = [case for case in on_stdio() if is_json(case)][::every_nth]
    assert len(cases) > 500 / every_nth
    return [
        case.name
        for case in cases
        if grave(check(changed(case, lambda value: turned(renamed(value))))) != grave(checked_once(case))
    ]


def test_other_ids_and_another_order_of_members_change_no_finding() -> None:
    assert changed_findings(SHARE) == []


@pytest.mark.soak
def test_other_ids_and_another_order_of_members_change_no_finding_of_any_case() -> None:
    assert changed_findings(1) == []


def without_times() -> list[Case]:
    """The cases over HTTP without times: frames inserted between theirs would change the times of the others."""
    cases = [case for _, case in corpus() if case.transport == "http"]
    return [case for case in cases if not any("t" in frame for frame in case.members["frames"])]


def changed_by_another(every_nth: int) -> list[str]:
    """The cases whose findings change next to an unrelated session."""
    cases = without_times()[::every_nth]
    assert len(cases) > 400 / every_nth
    return [case.name for case in cases if beside_another(case) != grave(checked_once(case))]


def test_an_unrelated_session_beside_it_changes_no_finding() -> None:
    assert changed_by_another(SHARE) == []


@pytest.mark.soak
def test_an_unrelated_session_beside_it_changes_no_finding_of_any_case() -> None:
    assert changed_by_another(1) == []


def beside_another(case: Case) -> Counter[tuple[str, int]]:
    """The findings of a case recorded alongside another client that uses the same ids on its own connections."""
    own = case.members["frames"]
    beside = [dict(frame, x=frame.get("x", 1) + 1000, peer="192.0.2.77:4711") for frame in _unrelated()]
    numbers: list[int | None] = []
    told = []
    for number, frame in enumerate(own):
        told.append(frame)
        numbers.append(number)
        if beside:
            told.append(beside.pop(0))
            numbers.append(None)
    told += beside
    numbers += [None] * len(beside)
    (made,) = cases([json.dumps(case.members | {"frames": told}).encode()])
    assert isinstance(made, Case)
    found = [(one.rule, numbers[one.frame]) for one in check(made) if one.level > 1]
    return Counter((rule, -1 if number is None else number) for rule, number in found)


def _unrelated() -> list[dict[str, Any]]:
    accepted = "Accept: application/json, text/event-stream\r\n"
    head = f"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{accepted}"
    asked = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}},
    }
    result = {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}},
    }
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: other-1868a90c-9f3e-4d57\r\n\r\n"
    later = "Mcp-Session-Id: other-1868a90c-9f3e-4d57\r\nMCP-Protocol-Version: 2025-06-18\r\n"
    return [
        {"x": 1, "dir": "c2s", "k": "req", "raw": f"{head}\r\n{json.dumps(asked)}"},
        {"x": 1, "dir": "s2c", "k": "res", "raw": f"{answer}{json.dumps(result)}"},
        {"x": 2, "dir": "c2s", "k": "req", "raw": f"{head}{later}\r\n{json.dumps(told)}"},
        {"x": 2, "dir": "s2c", "k": "res", "raw": "HTTP/1.1 202 Accepted\r\n\r\n"},
    ]


def test_a_conversation_in_memory_is_understood() -> None:
    opening = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
    }
    found = check(stdio("twice", ("c2s", opening), ("c2s", opening)))
    assert ("id/duplicate-in-flight", 1) in grave(found)


def test_what_follows_from_a_cause_is_counted_under_it() -> None:
    page = {"tools": [{"name": "dig", "inputSchema": {"type": "object"}}], "nextCursor": "c1"}
    frames: list[Any] = [
        ("c2s", request(0, "initialize", **ASKED)),
        ("s2c", result(0, **SERVED)),
        ("c2s", notification("notifications/initialized")),
    ]
    for id_ in range(1, 6):
        frames.append(("c2s", request(id_, "tools/list", **({"cursor": "c1"} if id_ > 1 else {}))))
        frames.append(("s2c", result(id_, **page)))
    checker, found = checked(stdio("a loop over cursors", *frames))
    assert [one.rule for one in found if one.level > Level.NOTE] == ["page/loop"]
    assert checker.counts["page/loop", 1, "server"] == 4
    assert checker.followers == {("page/loop", 1, "page/duplicate-item"): 4, ("page/loop", 1, "tool/duplicate-name"): 4}
