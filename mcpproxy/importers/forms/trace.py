"""Conversations, one per line.

Each line is a conversation, shown here with line breaks for readability:

```json
{
  "name": "ping over HTTP",
  "transport": "http",
  "frames": [
    {
      "dir": "c2s", "x": 1, "k": "req",
      "raw": "POST /mcp HTTP/1.1\\r\\nContent-Type: application/json\\r\\n\\r\\n{\\"jsonrpc\\":\\"2.0\\",\\"id\\":1,\\"method\\":\\"ping\\"}"
    },
    {
      "dir": "s2c", "x": 1, "k": "res", "t": 3.5,
      "raw": "HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n\\r\\n{\\"jsonrpc\\":\\"2.0\\",\\"id\\":1,\\"result\\":{}}"
    }
  ]
}
```

| member | meaning |
|---|---|
| `name` | The name of the capture and of its file; unsafe characters are left out of the file name |
| `transport` | `stdio`, `http` (Streamable HTTP) or `legacy-sse` |
| `start_observed` | `false` if the conversation begins in the middle |
| `frames` | The events of the conversation, in order |

Other members are ignored. Members of a frame:

| member | meaning |
|---|---|
| `t` | Milliseconds from the start; if absent, 10 more than the previous frame. It never decreases |
| `dir` | `c2s`, `s2c`, or, on stdio, `stderr` |
| `raw`, `raw_b64` | The text on the wire, or its exact bytes in base64. HTTP bodies have no transfer coding: no chunk sizes |
| `noeol` | stdio: `true` if the LF after `raw` is missing; further bytes in this direction continue the same line |
| `k` | stdio: `eof` if the sender closed the stream. HTTP: `req` (a whole request), `res` (a whole response), `head` (of a response that continues), `sse` (an event of that response, with its blank line), `end` (closed) |
| `code` | With `eof` from the server: its exit status, or the negated number of the signal that ended it |
| `x` | HTTP: the number of the exchange, from 1 |
| `by` | With `end`: `client` or `server`; if absent, the sender |
| `cut` | With `end`: `true` if the response broke off; without it, one whose length was not announced is complete when the server closes |
| `body` | HTTP, with `req`, `res` and `head`: `false` if there was, or may have been, a body that the log does not contain, such as that of a stream |
| `peer` | HTTP, with `req`: the address of the client. Exchanges of one peer share a connection; an exchange without a peer has its own |

**Where to find it.** Wherever you write it. mcpproxy's own tests are such files, and `check --trace` checks them.

**What the capture contains.** Everything. A conversation with an invalid frame is left out entirely, and the others are
imported.

**What is missing.** Nothing. Times are always exact: by definition, a frame without `t` follows the previous one after 10 ms.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from mcpproxy.importers.capture_lines import MAX_STAMP_NS
from mcpproxy.importers.case import HEADER_TRANSPORTS, Case, Kind, Step, Transport
from mcpproxy.importers.form import Form
from mcpproxy.importers.http import request_of, response_of
from mcpproxy.importers.log_items import LeftOut
from mcpproxy.importers.source import (
    MAX_HEAD_BYTES,
    InvalidLine,
    Log,
    first_lines,
    first_object,
    numbered_lines,
    object_of,
    raw_of,
    read_lines,
)
from mcpproxy.importers.stdio import Pipe

T = TypeVar("T", bound=str)

STEP_NS: Final = 10_000_000
"""The time from the previous frame to a frame without a time."""
MILLISECOND_NS: Final = 1_000_000
MAX_NUMBER: Final = 2**53 - 1
MAX_NAME_CHARS: Final = 1024
"""Characters of a name or an address. A record contains all of them."""

_PIPES: Final[tuple[Pipe, ...]] = ("c2s", "s2c", "stderr")
_SIDES: Final[dict[Kind, tuple[Pipe, ...]]] = {
    "req": ("c2s",),
    "res": ("s2c",),
    "head": ("s2c",),
    "sse": ("s2c",),
    "end": ("c2s", "s2c"),
}
"""The sides that can send each kind of frame over HTTP."""


def cases(lines: Iterable[bytes]) -> Iterator[Case | LeftOut]:
    """Yields the cases in the lines of a file, and the lines that are not cases. Blank lines are skipped."""
    for number, line in numbered_lines(lines):
        name = ""
        try:
            values = object_of(line)
            name = _text(values, "name")
            if not name:
                raise InvalidLine("expected text in `name`")
            yield _case(number, name, values)
        except InvalidLine as error:
            yield LeftOut(f"line {number}", str(error), name)


def _case(number: int, name: str, values: dict[str, Any]) -> Case:
    transport, frames = _word(values, "transport", tuple(HEADER_TRANSPORTS)), values.get("frames")
    observed_start = _boolean(values, "start_observed", default=True)
    if not isinstance(frames, list):
        raise InvalidLine("expected a list in `frames`")
    reader = _FrameReader(transport)
    steps = []
    for index, frame in enumerate(frames):
        try:
            steps.append(reader.read_step(frame))
        except InvalidLine as error:
            raise InvalidLine(f"frame {index}: {error}") from None
    return Case(number, name, transport, observed_start, tuple(steps), values)


class _FrameReader:
    """Reads frames in order, and rejects a frame that cannot follow the ones before it."""

    def __init__(self, transport: Transport) -> None:
        self._is_stdio = transport == "stdio"
        self._t_ns = -STEP_NS
        self._ended_pipes: set[Pipe] = set()
        self._begun_exchanges: set[int] = set()
        self._answered_exchanges: set[int] = set()
        self._closed_exchanges: set[int] = set()

    def read_step(self, frame: object) -> Step:
        """Returns the step for the next frame.

        Raises:
            InvalidLine: the value is not a frame, or not allowed here.
        """
        if not isinstance(frame, dict):
            raise InvalidLine("expected an object")
        self._t_ns = self._time(frame.get("t"))
        return self._read_stdio_step(frame) if self._is_stdio else self._read_http_step(frame)

    def _time(self, time: object) -> int:
        if time is None:
            t_ns = self._t_ns + STEP_NS
        elif (
            isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time < MAX_STAMP_NS / MILLISECOND_NS
        ):
            raise InvalidLine("expected milliseconds from the start in `t`")
        else:
            t_ns = time * MILLISECOND_NS if isinstance(time, int) else round(time * MILLISECOND_NS)
        if t_ns < self._t_ns:
            raise InvalidLine("`t` is earlier than in the frame above")
        if t_ns >= MAX_STAMP_NS:
            raise InvalidLine("expected an earlier time in the frames above")
        return t_ns

    def _read_stdio_step(self, frame: dict[str, Any]) -> Step:
        pipe = _word(frame, "dir", _PIPES)
        if pipe in self._ended_pipes:
            raise InvalidLine(f"{pipe} has already ended")
        kind, code = frame.get("k"), frame.get("code")
        if kind is None:
            return Step(self._t_ns, "line", pipe, raw_of(frame), _boolean(frame, "noeol", default=False))
        if kind != "eof":
            raise InvalidLine("expected `eof` in `k`, or no `k`, on stdio")
        if code is not None and (pipe != "s2c" or type(code) is not int or abs(code) > MAX_NUMBER):
            raise InvalidLine("expected a whole number in `code`, and `s2c` in `dir`")
        self._ended_pipes.add(pipe)
        return Step(self._t_ns, "eof", pipe, code=code)

    def _read_http_step(self, frame: dict[str, Any]) -> Step:
        kind = _word(frame, "k", tuple(_SIDES))
        side = _word(frame, "dir", _SIDES[kind])
        number = frame.get("x")
        if type(number) is not int or not 1 <= number <= MAX_NUMBER:
            raise InvalidLine("expected the number of the exchange, from 1, in `x`")
        if kind != "end" and number in self._closed_exchanges:
            raise InvalidLine(f"exchange {number} has already ended")
        if kind == "req" and number in self._begun_exchanges:
            raise InvalidLine(f"exchange {number} already exists: expected a new number in `x`")
        self._begun_exchanges.add(number)
        step = Step(self._t_ns, kind, side, exchange=number)
        if kind == "end":
            self._closed_exchanges.add(number)
            step = step._replace(is_cut=_boolean(frame, "cut", default=False))
            if frame.get("by") is None:
                return step._replace(ended_by="client" if side == "c2s" else "server")
            return step._replace(ended_by=_word(frame, "by", ("client", "server")))
        raw = raw_of(frame)
        if not _boolean(frame, "body", default=True):
            step = step._replace(lacks_body=True)
        if kind == "req":
            head, body = request_of(raw)
            return step._replace(head=head, raw=body, peer=_text(frame, "peer"))
        return self._add_response(step, raw)

    def _add_response(self, step: Step, raw: bytes) -> Step:
        number = step.exchange
        if step.kind == "sse":
            # An event without a head belongs to a stream that was already open, so no head can follow.
            self._answered_exchanges.add(number)
            return step._replace(raw=raw)
        if number in self._answered_exchanges:
            raise InvalidLine(f"exchange {number} already has a response")
        head, body = response_of(raw)
        if not head.is_informational:
            self._answered_exchanges.add(number)
            if step.kind == "res":
                self._closed_exchanges.add(number)
        return step._replace(head=head, raw=body)


def _word(values: dict[str, Any], name: str, words: Sequence[T]) -> T:
    """Returns the value of a member that must be one of a few words."""
    value = values.get(name)
    for word in words:
        if value == word:
            return word
    *other_words, last_word = (f"`{word}`" for word in words)
    raise InvalidLine(f"expected {', '.join(other_words)}{' or ' if other_words else ''}{last_word} in `{name}`")


def _text(values: dict[str, Any], name: str) -> str:
    """Returns a member that must be a short text; empty if missing."""
    value = values.get(name)
    if value is not None and (not isinstance(value, str) or len(value) > MAX_NAME_CHARS):
        raise InvalidLine(f"expected text of at most {MAX_NAME_CHARS} characters in `{name}`")
    return value or ""


def _boolean(values: dict[str, Any], name: str, *, default: bool) -> bool:
    """Returns a member that must be true or false."""
    value = values.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidLine(f"expected true or false in `{name}`")
    return default if value is None else value


def sniff(head: bytes, _file_name: str) -> bool:
    """Returns whether the first line is a case, or seems to be the beginning of one that is longer than the head."""
    line = next(iter(first_lines(head)), b"")
    if line.endswith(b"\n") or len(line) < MAX_HEAD_BYTES:
        return {"name", "transport", "frames"} <= first_object(head).keys()
    return line.startswith(b"{") and b'"transport"' in line and b'"frames"' in line


def read(log: Log) -> Iterator[Case | LeftOut]:
    """Read a log."""
    return cases(read_lines(log.file))


FORM = Form(title="a trace with one conversation per line", sniff=sniff, read=read, is_strict=True, is_verbatim=True)
