"""What is recognised once in a capture is replaced everywhere in it, and the words of the protocol stay."""

import base64
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from captures.errors import CannotCreate
from captures.file import CaptureFile
from captures.frame import Frame
from captures.reader import Capture, read_frames
from captures.record import members, seal, stderr_members
from mcpproxy.sharing import RedactionAccount, ShareOptions, redacted_copy
from mcpproxy.sharing.choices import ShareChoices
from mcpproxy.sharing.first_pass import FirstPass
from mcpproxy.sharing.frames import FrameRedactor
from mcpproxy.sharing.kingfisher import catalogue
from mcpproxy.sharing.pseudonyms import PseudonymGenerator
from mcpproxy.sharing.redaction import Redactor
from tests.mcpproxy.sharing.matrix import with_other_places
from tests.mcpproxy.sharing.written import written

pytestmark = pytest.mark.usefixtures("secret_rules")

PASSWORD = "Tr0ub4dor&3"
HOST = "db8.acme-corp.io"


def call(number: int, arguments: Any) -> tuple[str, Any]:
    return "c2s", {"id": number, "method": "tools/call", "params": {"name": "look", "arguments": arguments}}


def reply(number: int, text: str, **more: Any) -> tuple[str, Any]:
    return "s2c", {"id": number, "result": {"content": [{"type": "text", "text": text}], **more}}


def shared(
    tmp_path: Path, messages: list[tuple[str, Any]], wanted: ShareOptions | None = None, more: list[bytes] | None = None
) -> tuple[list[Any], RedactionAccount]:
    """The messages of the copy of a capture of some messages, without the handshake."""
    original, copy = tmp_path / "original.mcpcap", tmp_path / "copy.mcpcap"
    *lines, close = written(messages)
    original.write_bytes(b"".join([*lines, *(more or []), *([] if more else [close])]))
    account = redacted_copy(original, copy, wanted)
    frames = [item for item in read_frames(Capture(copy)) if isinstance(item, Frame)]
    return [json.loads(frame.raw) for frame in frames[3:]], account


def texts(message: Any) -> str:
    return str(message["result"]["content"][0]["text"])


def test_a_password_goes_from_prose_that_came_before_it(tmp_path: Path) -> None:
    messages, account = shared(
        tmp_path,
        [
            reply(2, f"use {PASSWORD} to log in, not x{PASSWORD}"),
            call(3, {"password": PASSWORD}),
            reply(3, f"logged in with '{PASSWORD}', {base64.b64encode(f'it is {PASSWORD} now'.encode()).decode()}"),
        ],
    )
    pseudonym = messages[1]["params"]["arguments"]["password"]
    assert texts(messages[0]) == f"use {pseudonym} to log in, not x{PASSWORD}"
    prose, _, encoded = texts(messages[2]).partition(", ")
    assert prose == f"logged in with '{pseudonym}'"
    assert PASSWORD not in base64.b64decode(encoded).decode()
    assert account.kinds["known-value"] == (2, 1)
    assert account.kinds["known-value-in-base64"] == (1, 1)


def test_a_host_goes_where_it_is_bare(tmp_path: Path) -> None:
    messages, _ = shared(
        tmp_path,
        [
            call(2, {"url": f"https://{HOST}/status", "hostname": HOST, HOST: 1}),
            reply(2, f"connected to host={HOST}:5432, {HOST.upper()}.", structuredContent={HOST: {"host": HOST}}),
        ],
    )
    arguments = messages[0]["params"]["arguments"]
    host = arguments["hostname"]
    assert host.endswith(".invalid")
    assert arguments["url"] == f"https://{host}/status"
    assert arguments[HOST] == 1, "the name of an argument is that of a member of a schema"
    assert texts(messages[1]) == f"connected to host={host}:5432, {host}."
    assert messages[1]["result"]["structuredContent"] == {host: {"host": host}}


def test_a_secret_on_stderr_or_in_a_broken_frame_is_known_too(tmp_path: Path) -> None:
    stderr = seal(5, 6_000_000_000, "stderr", stderr_members(f"password={PASSWORD}".encode()))
    close = seal(6, 7_000_000_000, "close", members(ending="client", totals={}))
    messages, _ = shared(tmp_path, [reply(2, f"it is {PASSWORD}")], more=[stderr, close])
    assert PASSWORD not in texts(messages[0])


def test_ids_methods_tools_and_members_of_schemas_stay(tmp_path: Path) -> None:
    word = "acme-look-2"
    schema = {
        "type": "object",
        "properties": {word: {"type": "string", "description": f"like {word}", "default": word}},
        "required": [word],
    }
    tools = [{"name": word, "title": word, "inputSchema": schema}]
    sent: list[tuple[str, Any]] = [
        ("s2c", {"id": word, "result": {"tools": tools, "nextCursor": word}}),
        ("c2s", {"id": word, "method": word, "params": {"name": word, "arguments": {word: word}, "cursor": word}}),
        ("s2c", {"method": "notifications/progress", "params": {"progressToken": word, "progress": 1}}),
        call(4, {"password": word}),
    ]
    messages, _ = shared(tmp_path, sent)
    pseudonym = messages[3]["params"]["arguments"]["password"]
    assert pseudonym != word
    properties = {word: {"type": "string", "description": f"like {pseudonym}", "default": pseudonym}}
    assert messages[0]["result"] == {
        "tools": [{"name": word, "title": pseudonym, "inputSchema": {**schema, "properties": properties}}],
        "nextCursor": word,
    }
    assert messages[1] == {
        "jsonrpc": "2.0",
        "id": word,
        "method": word,
        "params": {"name": word, "arguments": {word: pseudonym}, "cursor": word},
    }
    assert messages[2]["params"]["progressToken"] == word


@pytest.mark.parametrize("task", ["https://db8.acme-corp.io/tasks/7", "db8.acme-corp.io", "10.1.2.3-task", PASSWORD])
def test_the_id_of_a_task_is_the_same_everywhere(tmp_path: Path, task: str) -> None:
    messages, _ = shared(
        tmp_path,
        [
            call(2, {"password": PASSWORD, "url": f"https://{HOST}/"}),
            ("s2c", {"id": 2, "result": {"task": {"taskId": task, "status": "working"}}}),
            ("c2s", {"id": 3, "method": "tasks/get", "params": {"taskId": task}}),
            ("s2c", {"id": 3, "result": {"taskId": task, "status": "working"}}),
            ("s2c", {"id": 4, "result": {"tasks": [{"taskId": task, "status": "working"}]}}),
            ("s2c", {"method": "notifications/tasks/status", "params": {"taskId": task, "status": "working"}}),
            reply(5, "done", _meta={"io.modelcontextprotocol/related-task": {"taskId": task}}),
        ],
    )
    assert [json.dumps(message).count(json.dumps(task)) for message in messages[1:]] == [1] * 6


def test_words_stay_although_they_are_passwords(tmp_path: Path) -> None:
    prose = "The database is open at 2026-11-24T10:15:00Z; swordfish, 20261129 and same-origin stay."
    secrets = ["swordfish", "database", "20261129", "2026-11-24T10:15:00Z", "same-origin"]
    messages, _ = shared(tmp_path, [call(2, {"items": [{"password": secret} for secret in secrets]}), reply(2, prose)])
    assert texts(messages[1]) == prose


def test_what_the_user_keeps_is_not_known(tmp_path: Path) -> None:
    sent = [call(2, {"password": PASSWORD}), reply(2, f"it is {PASSWORD}")]
    for number, pattern in enumerate(("password", "/params/arguments/password", "re:Tr0.*")):
        folder = tmp_path / str(number)
        folder.mkdir()
        messages, _ = shared(folder, sent, ShareOptions(ShareChoices(keep=[pattern])))
        assert texts(messages[1]) == f"it is {PASSWORD}", pattern


def test_a_review_asks_once_for_a_value(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def review(kind: str, secret: str, _: object) -> bool:
        asked.append((kind, secret))
        return False

    sent = [call(2, {"password": PASSWORD}), reply(2, f"it is {PASSWORD}, {PASSWORD}")]
    messages, _ = shared(tmp_path, sent, ShareOptions(ShareChoices(review=review)))
    assert asked == [("named-secret", PASSWORD)]
    assert texts(messages[1]) == f"it is {PASSWORD}, {PASSWORD}"


def test_what_is_added_while_a_capture_is_shared_is_not_in_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be there without having been searched in the first pass."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    *lines, late, _ = written([reply(2, f"on {HOST}"), reply(3, f"see https://{HOST}/ and {PASSWORD}")])
    live = CaptureFile(tmp_path / "live.mcpcap")
    live.append(b"".join(lines))
    waiting = [late]

    def record(_done: int, _all: int) -> None:
        if waiting:
            live.append(waiting.pop())

    try:
        account = redacted_copy(Path(live.path), tmp_path / "copy.mcpcap", ShareOptions(progress=record))
    finally:
        live.close()
    assert (waiting, account.records) == ([], len(lines))
    assert HOST in (tmp_path / "copy.mcpcap").read_text("utf-8")
    assert redacted_copy(Path(live.path), tmp_path / "later.mcpcap").records == len(lines) + 1
    assert HOST not in (tmp_path / "later.mcpcap").read_text("utf-8")
    assert list(place.iterdir()) == []


def test_a_capture_that_is_recorded_needs_a_place_for_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = CaptureFile(tmp_path / "live.mcpcap")
    live.append(b"".join(written([])))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    try:
        with pytest.raises(CannotCreate, match=r"being recorded, to .*missing: No such file.*; set TMPDIR to another"):
            redacted_copy(Path(live.path), tmp_path / "copy.mcpcap")
    finally:
        live.close()
    assert not (tmp_path / "copy.mcpcap").exists()


@pytest.mark.costly("it reads a capture with every kind of secret three times")
def test_a_frame_that_is_not_parsed_again_would_have_stayed_as_it_is(tmp_path: Path) -> None:
    original = tmp_path / "original.mcpcap"
    original.write_bytes(b"".join(with_other_places()[0].lines))
    capture = Capture(original)
    first_pass = FirstPass()
    choices = ShareChoices()
    collecting = Redactor(
        PseudonymGenerator(), catalogue(), choices, bodies=True, unparsed=False, on_secret=first_pass.values.add
    )
    first_pass.read(capture, collecting, lambda _: None)
    redactor = Redactor(
        PseudonymGenerator(), catalogue(), choices, bodies=True, unparsed=False, known=first_pass.known_value_search
    )
    frames = [item for item in read_frames(capture) if isinstance(item, Frame)]
    unchanged = [frame for frame in frames if first_pass.is_unchanged(frame)]
    for frame in unchanged:
        redacted = FrameRedactor(redactor, keep_unparsed=False).redact_frame(
            frame.raw, frame.dir, frame.unit, whole=frame.whole, is_partial=frame.is_partial
        )
        assert redacted.raw == frame.raw
    assert 0 < len(unchanged) < len(frames) / 2
