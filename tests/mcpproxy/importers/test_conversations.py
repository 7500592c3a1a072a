"""Events of logs become captures: one for each run of each server, with the times that the log has."""

from collections.abc import Iterable

from captures.reader import read_frames
from mcpproxy.importers.case import Case
from mcpproxy.importers.conversations import MAX_CONVERSATIONS, MAX_OPEN_CONVERSATIONS, Conversations
from mcpproxy.importers.form import Form
from mcpproxy.importers.log_items import Event, LeftOut, LoggedFrame, LoggedStderr, ServerExit, ServerStart
from tests.analysis.judged import Judged
from tests.mcpproxy.importers.logs import ImportedCapture

NOW = 1_795_169_702_000_000_000
MS = 1_000_000
OPENING = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
OPENED = b'{"jsonrpc":"2.0","id":1,"result":{}}'
CALL = b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
ANSWER = b'{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}'


def written(events: Iterable[Event], *, is_verbatim: bool = False) -> list[ImportedCapture]:
    captures: list[ImportedCapture] = []

    def create(name: str, wall_ns: int | None) -> ImportedCapture:
        captures.append(ImportedCapture(name, wall_ns))
        return captures[-1]

    form = Form("a log", lambda _head, _name: True, lambda _log: (), is_verbatim=is_verbatim)
    conversations = Conversations("log", form, create)
    for event in events:
        assert conversations.add(event) is None
    conversations.close()
    assert all(capture.is_complete for capture in captures)
    return captures


def rules_in(capture: ImportedCapture) -> set[str]:
    checker = Judged()
    findings = [finding for item in read_frames(capture.records) for finding in checker.feed(item)]
    return {finding.rule for finding in [*findings, *checker.finish("closed")]}


def times(capture: ImportedCapture) -> list[tuple[int, bool]]:
    return [(frame.t_ns // MS, frame.time_is_exact) for frame in capture.frames]


def test_servers_that_take_turns_have_a_capture_each() -> None:
    one, two = written(
        LoggedFrame(name, "s2c" if raw == OPENED else "c2s", raw, NOW + at * MS)
        for at, (name, raw) in enumerate([("a", OPENING), ("b", OPENING), ("a", OPENED), ("b", OPENED), ("a", CALL)])
    )
    assert (one.name, len(one.frames), times(one)) == ("a", 3, [(0, True), (2, True), (4, True)])
    assert (two.name, len(two.frames), times(two)) == ("b", 2, [(0, True), (2, True)])
    assert (one.wall_ns, two.wall_ns) == (NOW, NOW + MS)


def test_each_run_of_a_server_has_a_capture() -> None:
    first, second, third = written(
        [
            ServerStart("a", NOW),
            ServerStart("a", NOW),
            LoggedFrame("a", "c2s", OPENING, NOW),
            ServerExit("a", NOW, 3),
            ServerExit("a", NOW),
            LoggedStderr("a", b"bye", NOW),
            LoggedFrame("a", "c2s", OPENING, NOW),
            LoggedFrame("a", "s2c", OPENED, NOW),
            LoggedFrame("a", "c2s", OPENING, NOW),
            LoggedFrame("a", "s2c", OPENED, NOW),
            ServerStart("a", NOW),
        ]
    )
    assert [len(capture.frames) for capture in (first, second, third)] == [1, 2, 2]
    assert [record.rec for record in first.records] == ["header", "frame", "process", "stderr", "close"]
    assert first.records[-1].members["status"] == 3
    assert all(capture.header["observed_start"] is True for capture in (first, second, third))


def test_a_frame_without_a_time_has_that_of_the_frame_before_and_is_marked() -> None:
    (capture,) = written(
        [
            LoggedStderr("a", b"starting", NOW),
            LoggedFrame("a", "c2s", OPENING),
            LoggedFrame("a", "s2c", OPENED, NOW),
            LoggedFrame("a", "c2s", CALL, NOW + 5 * MS),
            LoggedFrame("a", "s2c", ANSWER),
            LoggedFrame("a", "c2s", CALL, NOW + MS),
            LoggedFrame("a", "c2s", CALL, NOW + 7 * MS, is_time_exact=False),
            LoggedFrame("a", "c2s", CALL, 1 << 62),
            LoggedFrame("a", "c2s", CALL, NOW + 9 * MS),
        ]
    )
    assert times(capture) == [
        *((0, False), (0, True), (5, True), (5, False), (5, False)),
        *((7, False), (7, False), (9, True)),
    ]
    assert (capture.wall_ns, capture.header["wall_ns"]) == (NOW, NOW)


def test_a_log_whose_times_begin_late_has_no_wall_clock() -> None:
    frames = [
        LoggedFrame("a", "c2s", OPENING),
        LoggedFrame("a", "s2c", OPENED),
        LoggedFrame("a", "c2s", CALL, NOW),
    ]
    (capture,) = written(frames)
    assert ("wall_ns" in capture.header, times(capture)) == (False, [(0, False), (0, False), (0, True)])


def test_a_log_of_one_side_is_an_excerpt_because_nobody_knows_what_the_other_had_said() -> None:
    initialized = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    (capture,) = written(LoggedFrame("a", "c2s", raw, NOW) for raw in (OPENING, initialized, CALL))
    assert capture.header["observed_start"] is False
    assert not any(rule.startswith("lifecycle/") for rule in rules_in(capture))


def test_the_beginning_of_a_message_blames_nobody() -> None:
    events = [
        LoggedFrame("a", "c2s", OPENING, NOW),
        LoggedFrame("a", "s2c", OPENED, NOW),
        LoggedFrame("a", "c2s", CALL, NOW),
        LoggedFrame("a", "s2c", ANSWER[:25], NOW, is_whole=False),
    ]
    for is_verbatim in (False, True):
        (capture,) = written(events, is_verbatim=is_verbatim)
        cut = capture.frames[-1]
        assert (cut.raw, cut.whole, cut.verdict.kind, cut.is_partial) == (ANSWER[:25], False, "unjudged", True)
        rules = rules_in(capture)
        assert not any(rule.startswith("framing/") for rule in rules), rules
        assert not any("unanswered" in rule or "no-response" in rule for rule in rules), rules


def test_a_part_of_a_message_that_is_one_by_itself_is_paired_and_judged_by_no_rule() -> None:
    events = [
        LoggedFrame("a", "c2s", b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}', NOW, is_whole=False),
        LoggedFrame("a", "s2c", b'{"jsonrpc":"2.0","id":1,"result":{}}', NOW, is_whole=False),
        LoggedFrame("a", "c2s", b'{"jsonrpc":"2.0","id":2,"method":"tools/call"}', NOW, is_whole=False),
        LoggedFrame("a", "s2c", b'{"jsonrpc":"2.0","id":2,"error":{"message":""}}', NOW, is_whole=False),
        LoggedFrame("a", "s2c", b"[1]", NOW, is_whole=False),
    ]
    (capture,) = written(events)
    kinds = ["request", "response", "request", "error", "unjudged"]
    assert [record.members["kind"] for record in capture.records if record.rec == "frame"] == kinds
    assert [frame.verdict.kind for frame in capture.frames] == kinds
    assert [frame.verdict.problem for frame in capture.frames] == [None] * 5
    assert [(frame.is_abridged, frame.is_partial) for frame in capture.frames] == [(True, False)] * 4 + [(False, True)]
    assert rules_in(capture) == set()


def test_rules_about_bytes_are_silent_where_the_log_has_only_text() -> None:
    events = [LoggedFrame("a", "s2c", raw, NOW) for raw in (b"Server started", b"\xff", b"\xef\xbb\xbf" + OPENED, b"{")]
    (bytes_,), (text,) = written(events, is_verbatim=True), written(events)
    assert {"framing/stdout-not-json", "framing/invalid-utf8", "framing/bom"} <= rules_in(bytes_)
    assert {rule for rule in rules_in(text) if rule.startswith("framing/")} == {"framing/stdout-not-json"}


def test_rules_about_times_are_silent_once_a_time_is_not_exact() -> None:
    log = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
    flood = [LoggedFrame("a", "s2c", log, NOW + number * MS // 10) for number in range(2000)]
    opening = [LoggedFrame("a", "c2s", OPENING, NOW), LoggedFrame("a", "s2c", OPENED, NOW)]
    (exact,) = written([*opening, *flood])
    (inexact,) = written([*opening, LoggedFrame("a", "c2s", CALL), *flood])
    assert "logging/flood" in rules_in(exact) - rules_in(inexact)


def test_a_message_on_several_lines_becomes_one_frame() -> None:
    pretty = b'\r\n{\r\n  "jsonrpc": "2.0",\n  "n": 1.10,\n  "method": "ping"\n}\n'
    (capture,) = written([LoggedFrame("a", "c2s", pretty, NOW)])
    assert [frame.raw for frame in capture.frames] == [b'{   "jsonrpc": "2.0",   "n": 1.10,   "method": "ping" }']


def test_the_conversation_that_has_been_silent_longest_makes_room() -> None:
    many = MAX_OPEN_CONVERSATIONS + 1
    captures = written(
        event
        for number in [*range(many), 0, 1, many - 1]
        for event in (LoggedFrame(f"s{number}", "c2s", CALL, NOW), LoggedFrame(f"s{number}", "s2c", ANSWER, NOW))
    )
    # 0 made room for the last one, so 0 itself comes again, for which 1 makes room, and so on.
    assert [capture.name for capture in captures[many:]] == ["s0", "s1"]
    assert len(captures[many - 1].frames) == 4


def test_the_limit_of_conversations_holds_for_whole_ones() -> None:
    form = Form("a log", lambda _head, _name: True, lambda _log: (), is_strict=True, is_verbatim=True)
    conversations = Conversations("log", form, ImportedCapture)
    cases = (Case(1, "a", "stdio", True, (), {}, NOW) for _ in range(MAX_CONVERSATIONS + 1))
    left_out = [problem for case in cases if (problem := conversations.add(case))]
    assert [problem.reason for problem in left_out] == ["the log contains more than 1,000 conversations"]


def test_what_was_left_out_blames_nobody() -> None:
    captures: list[ImportedCapture] = []

    def create(name: str, wall_ns: int | None) -> ImportedCapture:
        captures.append(ImportedCapture(name, wall_ns))
        return captures[-1]

    for place in (None, "a", "b", ""):
        conversations = Conversations("log", Form("a log", lambda _head, _name: True, lambda _log: ()), create)
        for side, raw in (("c2s", OPENING), ("s2c", OPENED), ("c2s", CALL)):
            assert conversations.add(LoggedFrame("a", "c2s" if side == "c2s" else "s2c", raw, NOW)) is None
        if place is not None:
            conversations.mark_loss(LeftOut("line 4", "expected a message", place))
            conversations.mark_loss(LeftOut("line 5", "expected a message", place))
        late = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'
        conversations.add(LoggedFrame("a", "s2c", late, NOW + 9000 * MS))
        conversations.close()
        is_marked = place in ("a", "")
        assert [record.rec for record in captures[-1].records].count("gap") == is_marked
        assert ("timeout/unanswered" in rules_in(captures[-1])) is not is_marked


def test_a_log_of_one_side_and_parts_of_messages_are_told() -> None:
    def remarks(*frames: LoggedFrame) -> list[str]:
        form = Form("a log", lambda _head, _name: True, lambda _log: ())
        conversations = Conversations("log", form, ImportedCapture)
        for frame in frames:
            conversations.add(frame)
        conversations.close()
        return conversations.remarks()

    one_side = "only the server's messages are in this log: requests and responses cannot be paired"
    opened, answer = LoggedFrame("a", "s2c", OPENED), LoggedFrame("a", "s2c", ANSWER, is_whole=False)
    assert remarks(opened, answer) == ["1 message partial: that is all that the log has", one_side]
    assert remarks(LoggedFrame("a", "c2s", OPENING), opened) == []
