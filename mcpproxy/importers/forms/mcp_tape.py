"""mcp-tape traces.

mcp-tape writes JSONL files. The first line describes the session, each of the next ones contains a message, and the last one says how
the server ended:

    {"v":1,"type":"meta","startedAt":"…","label":"files",…}
    {"t":"2026-11-20T10:15:02.123Z","dir":"in","raw":{"jsonrpc":"2.0",…}}
    {"t":"…","type":"end","exitCode":0,"durationMs":30000}

`in` comes from the client, `out` from the server.

**Where to find it.** In the folder that mcp-tape was told to write to.

**What the capture contains.** The messages, their times, and how the server ended; the label becomes the name. A rotated
file has no first line, so the start of the session counts as not observed (`observed_start` is false), and rules with the
[mark S](../commands/rule.md#marks) report nothing.

**What is missing.** Lines that are not JSON, stderr, the original bytes, and fractions of a millisecond. mcp-tape
may have replaced secrets. If any line is invalid, nothing is imported.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

from mcpproxy.importers.form import Form
from mcpproxy.importers.log_items import LoggedFrame, ServerExit, ServerStart
from mcpproxy.importers.source import InvalidLine, Log, first_object, object_of
from mcpproxy.importers.times import stamp_of_date

_SIDES: Final[dict[object, Any]] = {"in": "c2s", "out": "s2c"}
# mcp-tape writes `raw` last, so the text of a message can be copied with the original digits of its numbers.
_VERBATIM: Final = re.compile(rb'\s*\{"t":"[^"\\]{1,64}","dir":"(?:in|out)","raw":(.*)\}\s*', re.DOTALL)


def sniff(head: bytes, _file_name: str) -> bool:
    """Returns whether the first line describes the session, or contains a message."""
    values = first_object(head)
    is_message = isinstance(values.get("t"), str) and values.get("dir") in ("in", "out") and "raw" in values
    return is_message or (values.get("type") == "meta" and "v" in values and "startedAt" in values)


def read(log: Log) -> Iterator[LoggedFrame | ServerStart | ServerExit]:
    """Read a log.

    Raises:
        InvalidLine: a line is invalid, or the log has no message.
    """
    name, is_empty = log.name, True
    for number, line in log.lines():
        try:
            values = object_of(line)
            if values.get("type") == "meta":
                name = _label(values) or name
                yield ServerStart(name)
                continue
            if "type" in values:
                code = values.get("exitCode")
                if values["type"] == "end" and type(code) is int and 0 <= code <= 255:
                    yield ServerExit(name, stamp_of_date(values.get("t")), code)
                continue
            side = _SIDES.get(values.get("dir"))
            if side is None:
                raise InvalidLine("expected `in` or `out` in `dir`")
            if "raw" not in values:
                raise InvalidLine("expected a message in `raw`")
            stamp_ns = stamp_of_date(values.get("t"))
            if stamp_ns is None:
                raise InvalidLine("expected a date and time in `t`")
        except InvalidLine as error:
            raise InvalidLine(f"line {number}: {error}") from None
        is_empty = False
        yield LoggedFrame(name, side, _text_of(line, values["raw"]), stamp_ns)
    if is_empty:
        raise InvalidLine('expected lines such as {"t":"2026-11-20T10:15:02.123Z","dir":"in","raw":{}}')


def _label(values: dict[str, Any]) -> str | None:
    """Returns the name of the session, or None if its first line has none."""
    if values.get("v") != 1:
        raise InvalidLine("expected version 1 in `v`")
    label = values.get("label")
    return label if isinstance(label, str) and 0 < len(label) <= 64 else None


def _text_of(line: bytes, value: object) -> bytes:
    match = _VERBATIM.fullmatch(line)
    if match is not None:
        text = match[1].strip()
        try:
            if b"\n" not in text and loads(text) == value:
                return text
        except JSONDecodeError:
            pass
    return dumps(value)


FORM = Form(
    title="an mcp-tape trace",
    sniff=sniff,
    read=read,
    limitation="mcp-tape does not record lines that are not JSON, stderr, or the original bytes",
    is_strict=True,
)
