"""The places of a capture in which a text can be."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from captures.exact_judge import judge_exactly
from captures.record import frame_members, members, seal, stderr_members
from captures.verdict import Direction
from tests.mcpproxy.sharing.spellings import base64_of, escaped, escaped_alone, percent

ONE_LINE: Final = frozenset({"HTTP header", "log line"})
"""Places whose text cannot have line ends."""


class Tape:
    """The records of a capture."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def record(self, rec: str, middle: bytes) -> None:
        """Add a record; what `marked` marked in it becomes escapes."""
        middle = escaped(middle.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        self.lines.append(seal(len(self.lines), len(self.lines) * 1_000_000, rec, middle))

    def frame(self, raw: bytes, direction: Direction = "s2c", **more: Any) -> None:
        """Add a frame."""
        self.record("frame", frame_members(direction, raw, judge_exactly(raw, direction), **more))

    def message(self, direction: Direction = "s2c", **more: Any) -> None:
        """Add a frame with a message."""
        self.frame(dumped({"jsonrpc": "2.0", **more}), direction)


def dumped(value: Any) -> bytes:
    """A value as JSON."""
    return escaped(json.dumps(value, ensure_ascii=False)).encode()


def _result(tape: Tape, **result: Any) -> None:
    tape.message(id=7, result=result)


def _contents(tape: Tape, texts: Iterable[str]) -> None:
    _result(tape, content=[{"type": "text", "text": text} for text in texts])


def _argument(tape: Tape, texts: Sequence[str]) -> None:
    arguments = {f"v{number}": text for number, text in enumerate(texts)}
    tape.message("c2s", id=7, method="tools/call", params={"name": "look", "arguments": arguments})


def _member(tape: Tape, texts: Sequence[str]) -> None:
    _result(tape, structuredContent=dict.fromkeys(texts, 1))


def _prose(tape: Tape, texts: Sequence[str]) -> None:
    _contents(tape, (f"Look, {text}, and then the rest." for text in texts))


def _sentence(tape: Tape, texts: Sequence[str]) -> None:
    _contents(tape, (f"Look at {text}. Then read the rest." for text in texts))


def _url(tape: Tape, texts: Sequence[str]) -> None:
    _contents(tape, (f"https://example.com/search?q={percent(text)}&page=2" for text in texts))


def _schema(tape: Tape, texts: Sequence[str]) -> None:
    properties = {
        f"p{number}": {"type": "string", "description": f"Such as {text}", "default": text}
        for number, text in enumerate(texts)
    }
    _result(tape, tools=[{"name": "look", "inputSchema": {"type": "object", "properties": properties}}])


def _error(tape: Tape, texts: Sequence[str]) -> None:
    tape.message(id=7, error={"code": -32000, "message": "failed", "data": {"details": list(texts)}})


def _resource(tape: Tape, texts: Sequence[str]) -> None:
    _result(tape, contents=[{"uri": "x://notes", "text": f"# Notes\n\n{text}\n\nmore"} for text in texts])


def _blob(tape: Tape, texts: Sequence[str]) -> None:
    _result(
        tape, contents=[{"uri": "x://notes", "blob": base64_of(f"# Notes\n{escaped_alone(text)}\n")} for text in texts]
    )


def _nested(tape: Tape, texts: Sequence[str]) -> None:
    _contents(tape, (json.dumps({"ok": True, "value": text}, ensure_ascii=False) for text in texts))


def _log(tape: Tape, texts: Sequence[str]) -> None:
    tape.message(method="notifications/message", params={"level": "info", "data": list(texts)})


def _log_line(tape: Tape, texts: Sequence[str]) -> None:
    tape.frame(f"INFO started with {' | '.join(map(escaped_alone, texts))}".encode())


def _stderr(tape: Tape, texts: Sequence[str]) -> None:
    tape.record("stderr", stderr_members("\n".join(f"warning: {escaped_alone(text)}" for text in texts).encode()))


def _header(tape: Tape, texts: Sequence[str]) -> None:
    request = {
        "method": "POST",
        "target": "/mcp",
        "version": "HTTP/1.1",
        "headers": [["X-Note", text] for text in texts],
    }
    tape.record("exchange", members(conn=1, exchange=1, stage="request", request=request))


Place = Callable[[Tape, Sequence[str]], None]
PLACES: Final[dict[str, Place]] = {
    "argument": _argument,
    "name of a member": _member,
    "prose": _prose,
    "URL": _url,
    "HTTP header": _header,
    "stderr": _stderr,
    "schema": _schema,
    "error data": _error,
    "text of a resource": _resource,
    "blob": _blob,
    "JSON in a string": _nested,
    "log message": _log,
    "log line": _log_line,
    "end of a sentence": _sentence,
}
"""Adds texts to a capture, each at such a place."""
