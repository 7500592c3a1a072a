"""`mcpproxy show --frame`, `--id` and `-v`: complete single messages, with their counterpart, times and findings."""

import fcntl
import json
from pathlib import Path

import pytest

from captures.record import members, stderr_members
from tests.analysis.store.capture_writer import CaptureWriter
from tests.analysis.talk import META
from tests.captures.samples import header
from tests.captures.test_golden import CORPUS
from tests.mcpproxy.cli.typed import complaints, mcpproxy, on_terminal, python
from tests.mcpproxy.login_captures import SERVER_METADATA, LoginCapture
from tests.mcpproxy.tui.stage import END, INITIALIZE, INITIALIZED, frame_record, record

CALL = (
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"price","arguments":{"of":%s}}}'
    % b"12345678901234567890.10"
)
ANSWER = b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"nine\\nninety-nine"}],"x":[],"y":{}}}'
HUNG = b'{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"reindex","arguments":{}}}'
CANCEL = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7","reason":"Request timed out"}}'
FOREIGN = b'{"jsonrpc":"2.0","id":99,"result":{"evil":"\\u001b[2J\xc2\x9b2J"}}'
ROOTS = b'{"jsonrpc":"2.0","id":7,"method":"roots/list"}'


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    talk = [
        ("header", header(name="library")),
        frame_record("c2s", INITIALIZE),
        frame_record("s2c", INITIALIZED),
        frame_record("c2s", CALL),
        frame_record("s2c", ANSWER),
        ("stderr", stderr_members(b"warning: low on shelves")),
        frame_record("c2s", HUNG),
        frame_record("c2s", CANCEL),
        frame_record("s2c", FOREIGN),
        frame_record("s2c", ROOTS),
    ]
    return record(tmp_path / "library" / "20261121T101502Z-4f2a.mcpcap", [*talk, END])


OPENED = """
import sys
from mcpproxy.cli.show import run

opened = 0

def count(event, arguments):
    global opened
    opened += event == "open" and str(arguments[0]) == sys.argv[-1]

sys.addaudithook(count)
run(sys.argv[1:])
print(opened, file=sys.stderr)
"""


def test_a_capture_is_opened_no_more_often_for_one_message_than_for_all(capture: Path) -> None:
    one, all_ = (python(OPENED, *words, capture).stderr for words in (("--frame", "3"), ()))
    assert int(one) == int(all_) > 0


def shown(capture: Path, *arguments: str) -> str:
    done = mcpproxy("show", *arguments, capture)
    assert (done.returncode, complaints(done)) == (0, b"")
    return done.stdout.decode()


def test_a_frame_is_whole_with_its_partner(capture: Path) -> None:
    text = shown(capture, "--frame", "3")
    assert text == shown(capture, "--frame", "4"), "a message and its answer are one page"
    assert "frame 3  client → server  tools/call #7 price  session 1" in text
    assert "answered   by frame 4 after 1.0 ms: ok" in text
    assert "frame 4  server → client  answer to tools/call #7 price" in text
    assert '"of": 12345678901234567890.10' in text, "every digit"
    assert r'"text": "nine\nninety-nine"' in text
    assert '"x": [],' in text
    bodies = [part.partition("\n\n")[2] for part in text.split("\nframe 4")]
    assert [json.loads(body) for body in bodies] == [json.loads(CALL), json.loads(ANSWER)]


def test_headers_of_http_are_shown_with_the_message() -> None:
    text = shown(CORPUS / "http.mcpcap", "--frame", "8")
    request, _, response = text.partition("\nframe 8")
    assert "  http       POST /mcp\n" in request
    assert "             authorization: hmac:0011223344556677\n" in request
    assert "  http       200" in response
    assert "             mcp-session-id: hmac:aa11223344556677\n" in response
    assert "mcp-session-id" not in request


def test_a_call_that_was_abandoned_says_so(capture: Path) -> None:
    text = shown(capture, "--frame", "6")
    assert "outcome    abandoned after 1.0 ms: Request timed out" in text
    assert "cancelled  by frame 7\n" in text
    assert "finding    note timeout/abandoned-request" in text
    cancel = shown(capture, "--frame", "7")
    assert 'cancels    tools/call #"7" reindex (frame 6)' in cancel
    assert "frame 6  client" in cancel


def test_a_call_that_its_client_cancelled_by_closing_the_exchange_names_no_frame(tmp_path: Path) -> None:
    talk = CaptureWriter(tmp_path / "a.mcpcap", "a", transport="http")
    head = {"method": "POST", "target": "/mcp", "headers": [["MCP-Protocol-Version", "2026-07-28"]]}
    talk.record(1, "exchange", conn=1, exchange=1, stage="request", request=head)
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "dig", "_meta": META}})
    place = {"conn": 1, "exchange": 1, "unit": "http_body"}
    asked = talk.record(2, "frame", dir="c2s", **place, kind="request", size=len(raw), raw=raw)
    talk.record(700, "exchange", conn=1, exchange=1, stage="end", request=head, ended_by="client")
    text = shown(talk.close(), "--frame", str(asked))
    assert "outcome    cancelled after 698 ms\n" in text
    assert "cancelled  by closing its HTTP exchange (record 3)" in text


def test_findings_stand_with_the_message(capture: Path) -> None:
    assert "finding    error id/unknown-response (server)" in shown(capture, "--frame", "8")


def test_what_is_no_frame_is_told_by_its_number(capture: Path) -> None:
    assert shown(capture, "--frame", "5") == "record 5  stderr: warning: low on shelves\n"


def test_a_record_whose_line_leaves_something_out_is_printed_with_its_members() -> None:
    start, end, refused = (shown(CORPUS / "http.mcpcap", "--frame", number) for number in ("1", "10", "11"))
    assert start.splitlines() == [
        "record 1  exchange",
        "  conn           1",
        "  exchange       1",
        "  stage          request",
        "  request        POST /mcp HTTP/1.1",
        "                 Host: 127.0.0.1:8090",
        "                 Authorization: hmac:0011223344556677",
        "                 Accept: application/json, text/event-stream",
        "  peer           127.0.0.1:50000",
        '  times          {"request_head":1250000}',
    ]
    assert "\n  response       HTTP/1.1 200 OK\n                 Content-Type: text/event-stream\n" in end
    assert end.endswith("  response_size  400\n  ended_by       complete\n")
    assert refused.startswith("record 11  GET /mcp → 302, ended by the error\n")
    assert "\n  error          connection reset\n" in refused
    assert shown(CORPUS / "http.mcpcap", "--frame", "0").startswith("record 0  header\n  format         1\n")


def test_a_range(capture: Path) -> None:
    heads = [line.split("  ")[0] for line in shown(capture, "--frame", "3..6").splitlines() if line[:1] in "fr"]
    assert [head for head in heads if head] == ["record 5", "frame 3", "frame 4", "frame 6"]


def test_every_message_of_an_id(capture: Path) -> None:
    lines = shown(capture, "--id", "7").splitlines()
    assert [line.split()[1] for line in lines] == ["3", "4", "6", "9"]
    assert all("session 1" in line for line in lines)
    assert ["of the client" in line for line in lines] == [True, True, True, False]
    assert "of the server" in lines[3]
    assert "answered by frame 4 after 1.0 ms: ok" in lines[0]
    assert "outcome abandoned after 1.0 ms: Request timed out, cancelled by frame 7" in lines[2]
    assert [line.split()[1] for line in shown(capture, "--id", '"7"').splitlines()] == ["6"]


def test_json_has_the_records(capture: Path) -> None:
    rows = [json.loads(line) for line in shown(capture, "--frame", "4", "--json").splitlines()]
    assert [row["seq"] for row in rows] == [3, 4]
    assert rows[1]["message"] == json.loads(ANSWER)
    assert [json.loads(line)["seq"] for line in shown(capture, "--id", "7", "--json").splitlines()] == [3, 4, 6, 9]


def test_verbose_prints_every_message(capture: Path) -> None:
    text = shown(capture, "-v")
    assert text.count('\n              "jsonrpc": "2.0"') == 8
    assert "12345678901234567890.10" in text


def test_nothing_of_it_acts_on_a_terminal(capture: Path) -> None:
    for arguments in (("--frame", "8"), ("-v",), ("--id", "99")):
        heard = on_terminal("show", *arguments, "--color", "never", str(capture))
        assert b"\x1b" not in heard
        assert b"evil" in heard or arguments[0] == "--id"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--frame", "99"), "there is no frame 99 in {capture}; the last record is 10"),
        (("--id", "nobody"), "there is no message with the id nobody in {capture}"),
        (("--frame", "x"), "--frame takes the number of a frame such as 38, or a range such as 30..40, not 'x'"),
        (("--frame", "3", "--id", "7"), "--frame and --id cannot be combined"),
        (("--frame", "3", "--follow"), "--frame cannot be combined with --filter, --follow, --tail"),
        (
            ("--id", "3", "--unfold"),
            "--id cannot be combined with --filter, --follow, --tail, --limit, --time, --turns, --unfold",
        ),
        (("-v", "--json"), "--verbose needs --format text"),
        (("--unfold", "--json"), "--unfold needs --format text"),
    ],
)
def test_what_cannot_be_shown_is_told(capture: Path, arguments: tuple[str, ...], told: str) -> None:
    done = mcpproxy("show", *arguments, capture)
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"mcpproxy: {told.format(capture=capture)}" in done.stderr.decode()


def test_frames_have_their_numbers_and_results_their_text(capture: Path) -> None:
    lines = mcpproxy("show", capture, COLUMNS="120").stdout.decode().splitlines()
    (answer,) = (line for line in lines if "ok" in line and "price" in line)
    assert answer.split()[1] == "4"
    assert "nine ninety-nine" in answer


def test_a_request_of_a_capture_that_grows_is_not_yet_answered(tmp_path: Path) -> None:
    path = record(tmp_path / "open.mcpcap", [("header", header()), frame_record("c2s", CALL)])
    assert "outcome    unanswered" in shown(path, "--frame", "1")
    with open(path, "rb") as recorded:
        fcntl.flock(recorded, fcntl.LOCK_EX)  # as its recorder does
        assert "outcome    waiting for " in shown(path, "--frame", "1")


def test_a_batch_is_written_once(tmp_path: Path) -> None:
    batch = b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]'
    path = record(tmp_path / "batch.mcpcap", [("header", header()), frame_record("c2s", batch), END])
    text = shown(path, "--frame", "1")
    assert text.count('"jsonrpc"') == 2
    assert [line[:15] for line in text.splitlines() if line.startswith("frame")] == [
        "frame 1 item 0 ",
        "frame 1 item 1 ",
    ]


def test_a_record_of_a_later_version_acts_on_nothing(tmp_path: Path) -> None:
    path = record(tmp_path / "later.mcpcap", [("header", header()), ("x_\\u001b[31m", members(a=1)), END])
    assert "\x1b" not in shown(path, "--frame", "0..2")


def test_the_request_that_was_probably_meant_is_named(tmp_path: Path) -> None:
    answer = b'{"jsonrpc":"2.0","id":99,"result":{}}'
    talk = [
        ("header", header()),
        frame_record("c2s", INITIALIZE),
        frame_record("s2c", INITIALIZED),
        frame_record("c2s", CALL),
    ]
    path = record(tmp_path / "wrong.mcpcap", [*talk, frame_record("s2c", answer), END])
    assert "outcome    unanswered, probably answered by frame 4 with id 99" in shown(path, "--frame", "3")
    assert "answers    nothing: fits no request, ok; probably meant for tools/call price #7 (frame 3)" in shown(
        path, "--frame", "4"
    )


def test_what_is_typed_is_no_filter(capture: Path) -> None:
    for arguments in (("--frame", "3 or method:*"), ("--frame", "6..3"), ("--id", '"a" or method:"b"')):
        assert mcpproxy("show", *arguments, capture).returncode == 2


def test_the_document_of_a_login_is_indented_and_whole_and_its_login_is_named(tmp_path: Path) -> None:
    names = [f"method-{number}" for number in range(60)]
    capture = LoginCapture(tmp_path / "x.mcpcap")
    capture.message(401)
    capture.document = json.dumps({"issuer": "https://mcp.example.org", "grant_types_supported": names})
    capture.leg("server-metadata", "GET", SERVER_METADATA)
    capture.document = ""
    capture.leg("registration", "POST", "/register", 400, error="invalid_redirect_uri")
    path = capture.close()
    text = mcpproxy("show", "--frame", "5", path).stdout.decode()
    assert '\n                   "issuer": "https://mcp.example.org",\n' in text
    assert all(f'"{name}"' in text for name in names)
    assert "\n  login          1: failed at registration: 400 invalid_redirect_uri\n" in text
    assert "\n  login      1: failed at registration: " in mcpproxy("show", "--frame", "2", path).stdout.decode()
