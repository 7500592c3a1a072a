"""What `show` prints.

The goldens hold the text of whole conversations as bytes: golden/NAME.ndjson is the input (records as FORMAT.md has
them, `t_ms` in place of `t_ns`), golden/NAME.*.txt what must come out. They protect the layout from drifting unseen.
After an intended change, regenerate them and review the diff:

    REGENERATE=1 .venv/bin/pytest tests/mcpproxy/test_conversation.py
"""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.filter import Filter, parse
from captures.damage import Damage
from captures.envelope import judge
from captures.frame import Frame
from captures.reader import assembled_items
from captures.record import Record
from mcpproxy.report.conversation import MAX_HELD_STEPS, Times
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Style
from tests.mcpproxy.conversation_text import ConversationText

GOLDEN = Path(__file__).with_name("golden")
FILE = "20261121T101502Z-4f2a.mcpcap"
COLOURS = re.compile("\x1b\\[(0|2|35|36|1;31)m")
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)

Item = Frame | Record | Damage


def items(rows: list[dict[str, Any]], limit: int = 600) -> Iterator[Item]:
    """Yields records of a conversation as a reader would; frames above `limit` bytes are not judged."""
    records: list[Record | Damage] = []
    seq = 0
    for row in rows:
        seq = row.get("seq", seq + 1)
        if "damage" in row:
            records.append(Damage(Path("search.mcpcap"), **row["damage"]))
            continue
        t_ns = int(row.get("t_ms", 0) * 1_000_000)
        records.append(Record(seq, row["rec"], t_ns, {"seq": seq, "t_ns": t_ns, **row}))
    return assembled_items(records, limit)


def load(name: str) -> list[Item]:
    rows = [json.loads(line) for line in (GOLDEN / f"{name}.ndjson").read_text("utf-8").splitlines()]
    return list(items(rows, 600 if name == "killed" else 1 << 20))


def shown(things: list[Item], conversation: ConversationText) -> list[str]:
    lines = [line for item in things for line in conversation.said(item)]
    return lines + list(conversation.ended())


def golden(name: str, lines: list[str]) -> None:
    path = GOLDEN / name
    text = "".join(f"{line}\n" for line in lines).encode()
    if os.environ.get("REGENERATE"):
        path.write_bytes(text)
    assert text == path.read_bytes()


@pytest.fixture
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


NAMES = ["handshake", "modern", "killed", "hostile"]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_reads_like_its_golden(name: str, width: int) -> None:
    golden(f"{name}.{width}.txt", shown(load(name), ConversationText(width=width, file=FILE)))


def test_colours_repeat_what_the_text_says_already() -> None:
    coloured = shown(load("handshake"), ConversationText(Style(colour=True), 80, file=FILE))
    golden("handshake.colour.txt", coloured)
    plain = (GOLDEN / "handshake.80.txt").read_text("utf-8").splitlines()
    assert [COLOURS.sub("", line).rstrip() for line in coloured] == plain


@pytest.mark.usefixtures("_utc")
@pytest.mark.parametrize("times", ["delta", "abs"])
def test_other_times(times: Times) -> None:
    golden(f"modern.{times}.txt", shown(load("modern"), ConversationText(width=80, times=times, file=FILE)))


def test_a_live_conversation_holds_no_line_back() -> None:
    conversation, folded = ConversationText(file=FILE, live=True), ConversationText()
    first, *rest = load("handshake")
    folded.things_of(first)
    assert list(conversation.said(first)) == []
    lines = list(conversation.catch_up())
    for item in rest:
        things = folded.things_of(item)
        before = len(lines)
        lines += conversation.said(item)
        assert len(lines) - before >= len(things)
    assert lines[0] == f"filesystem  {FILE}"
    golden("handshake.live.txt", lines + list(conversation.ended()))


def test_a_live_conversation_says_once_who_talks_in_which_revision() -> None:
    conversation = ConversationText(file=FILE, live=True)
    before = load("handshake")[:4]
    lines = [line for item in before for line in conversation.said(item)] + [*conversation.catch_up()]
    lines += [line for item in load("handshake")[4:] for line in conversation.said(item)]
    assert [line for line in lines if FILE in line] == [f"filesystem  2025-11-25  Claude Desktop 1.9 → ?  {FILE}"]
    told = [line.split(maxsplit=1)[1] for line in lines if "secure-filesystem 0.6.2" in line]
    assert told == ["·  2025-06-18  Claude Desktop 1.9 → secure-filesystem 0.6.2"]
    assert not [line for line in lines if "speaks revision" in line]


def test_a_live_conversation_with_a_past_has_one_heading() -> None:
    conversation = ConversationText(file=FILE, live=True)
    lines = [line for item in load("handshake") for line in conversation.said(item)]
    lines += conversation.catch_up()
    assert lines == shown(load("handshake"), ConversationText(file=FILE))[: len(lines)]


@pytest.mark.parametrize("only", [None, parse("method:tools/call"), parse("method:ping")], ids=["", "some", "none"])
def test_a_request_of_a_capture_that_grows_waits_and_is_not_unanswered(only: Filter | None) -> None:
    call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"slow"}}'
    began_ns = time.time_ns() - 90 * 10**9
    rows: list[dict[str, Any]] = [{"rec": "header", "name": "a", "wall_ns": began_ns}]
    rows += [{"rec": "frame", "dir": "c2s", "raw": call % n, "t_ms": 30_000 * n} for n in (1, 2)]
    conversation = ConversationText(only=only)
    lines = [line for item in items(rows) for line in conversation.said(item)]
    lines += conversation.ended(still_open=True)
    if only is not None and not conversation.has_selected:
        assert lines == []
        return
    end = [re.sub(r"\d+(\.\d)? s\b", "_", line).split(maxsplit=1)[1] for line in lines[-4:]]
    assert end == [
        "·  still being recorded",
        "·  2 requests waiting, the oldest for 1 min _",
        "2 →  tools/call #1 slow      waiting for 1 min _",
        "3 →  tools/call #2 slow      waiting for _",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_and_the_same_file_followed_live_show_the_same_things(name: str) -> None:
    still, live = ConversationText(file=FILE), ConversationText(file=FILE, live=True)
    at_once, followed = shown(load(name), still), shown(load(name), live)
    headings = {*still.heading(), *live.heading(), followed[0], followed[1]}
    assert [line for line in at_once if line not in headings] == [line for line in followed if line not in headings]


def test_the_heading_does_not_wait_for_ever() -> None:
    conversation = ConversationText(file=FILE)
    ping = Frame(1, 0, "c2s", b"junk", judge(b"junk", "c2s"))
    lines: list[str] = []
    fed = 0
    while not lines:
        lines += conversation.said(ping)
        fed += 1
    assert fed == MAX_HELD_STEPS
    assert lines[0] == FILE
    assert len(lines) == MAX_HELD_STEPS + 1


def test_the_steps_can_be_taken_apart_for_a_tail() -> None:
    whole = shown(load("handshake"), ConversationText(file=FILE))
    conversation = ConversationText(file=FILE)
    things = [thing for item in load("handshake") for thing in conversation.things_of(item)]
    things += conversation.closing()
    lines = [line for thing in things[-5:] for line in conversation.lines(thing)]
    assert lines == whole[-len(lines) :]
    assert list(conversation.heading()) == whole[: len(list(conversation.heading()))]


def test_an_error_text_that_does_not_fit_gets_a_line_of_its_own() -> None:
    narrow = shown(load("handshake"), ConversationText(width=80))
    at = next(number for number, line in enumerate(narrow) if "tool error" in line)
    assert narrow[at + 1].strip().startswith("Access denied - path outside allowed directories: /etc/hosts")
    (wide,) = (line for line in shown(load("handshake"), ConversationText(width=200)) if "tool error" in line)
    assert "not in /home/me/projects" in wide


def test_the_rule_of_a_bad_frame_is_never_cut_off() -> None:
    for width in (80, 100, 200):
        lines = shown(load("handshake"), ConversationText(width=width))
        assert sum("framing/stdout-not-json" in line for line in lines) == 1
        assert sum("jsonrpc/missing-version" in line for line in lines) == 2


OUTCOMES = {
    "ok": '"jsonrpc":"2.0","id":11,"result":{"content":[{"type":"text","text":"all of the notes of the day"}]}',
    "tool error": '"jsonrpc":"2.0","id":11,"result":{"isError":true,"content":[{"type":"text","text":"no such file"}]}',
    "error -32602": '"jsonrpc":"2.0","id":11,"error":{"code":-32602,"message":"no such tool"}',
    "fits no request": '"jsonrpc":"2.0","id":12,"result":{}',
    "tool error ": '"id":11,"result":{"isError":true,"content":[]}',
}
"""Responses to request 11, by the text of their lines; the last one breaks a rule with a long id."""


def test_a_narrow_line_loses_its_outcome_last() -> None:
    call = '{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"read_all_of_the_files"}}'
    for outcome, members in OUTCOMES.items():
        rows = [("c2s", call), ("s2c", f"{{{members}}}")]
        frames = [{"rec": "frame", "dir": way, "raw": raw, "t_ms": 10 * n} for n, (way, raw) in enumerate(rows)]
        for width in range(40, 121):  # 54 is what `show --follow --all` has for a line on a terminal of 80 columns
            conversation = ConversationText(width=width, times="abs")
            lines = shown(list(items([{"rec": "header", "name": "a", "wall_ns": 0}, *frames])), conversation)
            (line,) = (line for line in lines if f"  {outcome}" in f"{line}  ")
            assert "←" in line, (outcome, width)
            assert max(map(cells, lines)) <= width, (outcome, width)
            assert ("missing-version" in "".join(lines)) == outcome.endswith(" "), (outcome, width)
            assert "tools/call" in line or "answer" in line or width < 54, (outcome, width)


def test_a_capture_without_an_end_says_whether_it_is_still_growing() -> None:
    for still_open, text in ((True, "·  still being recorded"), (False, "■  capture ends here (not closed)")):
        conversation = ConversationText()
        lines = [line for item in load("handshake")[:5] for line in conversation.said(item)]
        assert text not in "".join(lines)
        assert conversation.ended(still_open=still_open)[0].endswith(text)


def test_endless_and_cancelled_requests_are_not_called_unanswered() -> None:
    assert not [line for line in shown(load("modern"), ConversationText()) if "unanswered" in line]
    count, line = (line for line in shown(load("handshake"), ConversationText()) if "unanswered" in line)
    assert count.endswith("·  1 request unanswered")
    assert "tools/call #12 sleep" in line


def test_many_requests_without_an_answer_are_counted_not_listed() -> None:
    raw = '{{"jsonrpc":"2.0","id":{},"method":"ping"}}'
    rows: list[dict[str, Any]] = [{"rec": "frame", "dir": "c2s", "raw": raw.format(n)} for n in range(1000)]
    lines = ConversationText().ended() + shown(list(items(rows)), ConversationText())
    assert sum(line.endswith("1,000 requests unanswered") for line in lines) == 1
    assert sum(line.endswith("unanswered") for line in lines) == 21
    assert lines[-1].endswith("and 980 more")


def test_many_requests_that_failed_are_counted_not_listed() -> None:
    """They include those whose HTTP exchange has ended, and those whose stream may still be resumed."""
    response = {"status": 200, "headers": [["content-type", "text/event-stream"]]}
    rows: list[dict[str, Any]] = [{"rec": "header", "transport": "http"}]
    for number in range(1, 31):
        at = {"conn": 1, "exchange": number}
        head = {**at, "rec": "exchange", "request": {"method": "POST", "target": "/mcp", "headers": []}}
        raw = json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"})
        rows.append({**head, "stage": "request", "peer": "127.0.0.1:1"})
        rows.append({**at, "rec": "frame", "dir": "c2s", "unit": "http_body", "raw": raw})
        rows.append({**head, "stage": "response", "response": response})
        if number % 3 == 0:
            event = {**at, "rec": "frame", "dir": "s2c", "unit": "sse_event", "event_id": f"{number}"}
            rows.append({**event, "raw": '{"jsonrpc":"2.0","method":"notifications/progress"}'})
        rows.append({**head, "stage": "end", "response": response, "ended_by": "complete"})
    lines = shown(list(items(rows)), ConversationText(width=200))
    count = next(row for row, line in enumerate(lines) if line.endswith("·  30 requests failed"))
    assert [line.split("#")[1].split()[:2] for line in lines[count + 1 : -1]] == [
        [f"{n}", "failed:"] for n in range(1, 21)
    ]
    assert lines[-1].endswith("·  and 10 more")


# Any message that may pass.

tricky = st.one_of(
    st.text('ab \x00\n\t\x1b[]0;m\x07\x9b\u202e\u200b\U000e0041\ud800\u0301\ufe0f⚠漢😀\\"', max_size=30),
    st.sampled_from(
        ["notifications/progress", "notifications/message", "notifications/cancelled", "tools/call", "initialize"]
    ),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), tricky),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                tricky,
                st.sampled_from(
                    ["name", "arguments", "content", "text", "isError", "message", "code", "protocolVersion"]
                ),
                st.sampled_from(
                    ["progress", "total", "requestId", "reason", "serverInfo", "resultType", "inputRequests"]
                ),
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=10,
)
bodies = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": st.one_of(st.just(1), values),
        "method": tricky,
        "params": values,
        "result": values,
        "error": values,
    },
)
frames = st.fixed_dictionaries(
    {"rec": st.just("frame"), "dir": st.sampled_from(["c2s", "s2c"])},
    optional={"whole": st.booleans()},
).flatmap(
    lambda row: st.one_of(bodies, st.lists(bodies, max_size=3)).map(lambda body: {**row, "raw": json.dumps(body)}),
)
others = st.builds(
    lambda rec, members: {**members, "rec": rec},
    st.sampled_from(["header", "process", "stderr", "eof", "signal", "stall", "gap", "close", "x"]),
    st.dictionaries(
        st.sampled_from(
            ["name", "dir", "by", "raw", "raw_b64", "event", "status", "signal", "of", "to", "waited_ns", "first"],
        )
        | st.sampled_from(
            ["last", "lost", "reason", "ending", "skipped", "pid", "wall_ns", "origin", "errno", "parts"],
        ),
        st.one_of(values, st.sampled_from(["c2s", "s2c", "ended", "failed", "sent", "error"])),
        max_size=8,
    ),
)


@given(st.lists(st.one_of(frames, others), max_size=6), st.integers(1, 160), st.sampled_from(["rel", "delta", "abs"]))
def test_no_line_is_too_wide_or_does_anything_to_a_terminal(
    rows: list[dict[str, Any]], width: int, times: Times
) -> None:
    columns = max(width, 40)
    lines = shown(list(items(rows)), ConversationText(Style(colour=True), width, times=times, file="\x1b[2J.mcpcap"))
    screen = pyte.Screen(columns + 1, 4)
    stream = pyte.Stream(screen)
    for line in lines:
        text = COLOURS.sub("", line)
        assert not UNSAFE.search(text)
        assert cells(text) <= columns
        text.encode("utf-8")
        screen.cursor.x = 0
        stream.feed(line)
        assert screen.cursor.y == 0
        assert screen.cursor.x <= columns
        assert screen.title == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_terminal_shows_each_line_as_one_row(name: str) -> None:
    screen = pyte.Screen(80, 300)
    lines = shown(load(name), ConversationText(Style(colour=True), 80, file=FILE))
    pyte.Stream(screen).feed("\r\n".join(lines))
    assert [row.rstrip() for row in screen.display if row.strip()] == [
        normalize("NFC", COLOURS.sub("", line)).rstrip() for line in lines
    ]


def test_a_huge_payload_costs_no_more_than_a_line() -> None:
    raw = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"arguments": [["x" * 50] * 9] * 9_999}}
    )
    rows: list[dict[str, Any]] = [{"rec": "frame", "dir": "c2s", "raw": raw}]
    (thing,) = ConversationText().things_of(*items(rows, 1 << 30))
    conversation = ConversationText()
    started = time.process_time()
    assert all(cells(line) <= 80 for line in conversation.lines(thing))
    assert time.process_time() - started < 1


def test_an_exchange_with_a_status_of_a_wrong_type_is_a_line() -> None:
    end = {"rec": "exchange", "stage": "end", "exchange": 1, "ended_by": "complete"}
    rows: list[dict[str, Any]] = [{"rec": "header"}, {**end, "request": {"method": "POST"}, "response": {"status": []}}]
    assert len(shown(list(items(rows)), ConversationText(width=80, file=FILE))) > 1
