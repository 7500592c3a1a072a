"""Text that contains JSON-RPC messages.

The text may be of any kind, if it contains whole messages, each at the end of an entry. An example is the output of a program that
prints what its transport sends and receives:

    2026-03-01T10:12:05.377Z [transport] sending: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
    <-- {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
    client -> server {
      "jsonrpc": "2.0",
      "method": "notifications/initialized"
    }
    Received: { jsonrpc: '2.0', id: 2, result: { tools: [ [Object] ] } }
    {"time":"2026-03-01T10:12:05Z","direction":"server_to_client","payload":{"jsonrpc":"2.0","id":3,"result":{}}}

**Where to find it.** There is no standard place. Such text comes from wrappers of a transport of the TypeScript SDK that log `send` and `onmessage`;
from `LoggingTransport` of the [Go SDK](https://github.com/modelcontextprotocol/go-sdk/blob/main/mcp/transport.go) (`write:`, `read:`); from
gateways and clients such as [Warp](https://github.com/tim-smart/effect-mcp/issues/18); or from conversations that people pasted. This format is
tried only if none of the others fits.

**What the capture contains.** Objects with the member `jsonrpc`, on one line or over several indented lines, as JSON or as
`console.log` prints them. Everything else is skipped. The direction is read from the words or arrows before a message, on its line or
the line above; if the message is a member of a JSON object, also from the members after it:

| text before the message | direction |
|---|---|
| `client -> server`, `client_to_server`, `to server`, `from client`, `Local→Remote`, `stdin`, `c2s` | from the client |
| `server -> client`, `server_to_client`, `to client`, `from server`, `Remote→Local`, `stdout`, `s2c` | from the server |
| `send`, `sending`, `sent`, `write`, `outgoing`, `-->`, `>>`, `→`, `📤` | from the side that wrote the log |
| `receive`, `received`, `recv`, `read`, `incoming`, `<--`, `<<`, `←`, `📥` | from the other side |
| none of these | the one that the method implies; a response comes from the side that did not send its request |

The first message that only one side may send shows which side wrote the log: the sender if the log says that it was sent, the other side
if it was received.

**What is missing.** Usually stderr, and often times. Times without a zone are assumed to be in the zone of this machine; set `TZ` to import a
log from elsewhere. If there are several servers, the text does not say which message belongs to which. `console.log` does not print
everything, as in `[Object]`: such messages are partial, and so are those that were truncated or shortened by hand.
"""

import io
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

from orjson import JSONDecodeError, loads

from captures.verdict import Direction
from mcpproxy.importers.form import Form
from mcpproxy.importers.guessed_sides import certain_side
from mcpproxy.importers.json_text import end_of_value
from mcpproxy.importers.log_items import Item, LeftOut, LoggedFrame
from mcpproxy.importers.opening import first_message
from mcpproxy.importers.partial_messages import complete_message
from mcpproxy.importers.printed_entries import PrintedEntry, printed_entries
from mcpproxy.importers.printed_objects import json_like_members, printed_object
from mcpproxy.importers.source import Log, cannot_be_json, json_of
from mcpproxy.importers.times import LoggedTime, time_in_text

MAX_CONTEXT_BYTES: Final = 512
"""The bytes on each side of a message that are searched for its direction and time."""
MAX_SHORTENED_BYTES: Final = 64 << 10
"""The bytes at the beginning of an entry that are used to restore a shortened message."""
MAX_ENCLOSING_OBJECTS: Final = 4
"""The number of objects that may enclose a message in its line."""
_MEMBER: Final = rb"(?:jsonrpc|id|method|params|result|error)"
_OBJECT: Final = re.compile(rb"""(?:\[\s*)?\{\s*(?:%b\s*:|["']%b["']\s*:|$)""" % (_MEMBER, _MEMBER)).search
_OBJECTS: Final = re.compile(rb"\{\s*\"").finditer
_OMISSION: Final = re.compile(
    r"\[?(?:\.\.\.|…)|[<\[(]truncated|[<\[(]\d{1,12} (?:more )?(?:chars|characters|bytes)"
).search
"""Matches text that replaces an omitted part of a message."""
_VERSION: Final = re.compile(rb"""jsonrpc["']?\s*:\s*["']2""").search
_INTRODUCTION: Final = re.compile(rb"(?::|-|=|>|<|\xe2\x86[\x90\x92]|\xf0\x9f\x93[\xa4\xa5])\s*$").search
"""Matches the end of a line that introduces the message on the next line."""
_KIND_MEMBERS: Final = frozenset({"method", "result", "error"})
_CLIENT: Final = "(?:the )?(?:client|editor|host|local)(?![a-z])"
_SERVER: Final = "(?:the )?(?:server|remote|upstream|child)(?![a-z])"
_TO: Final = "(?: ?(?:-+>|=+>|[→⇒]) ?|(?:^|[ _-])to[ _-])"
_BY: Final = "(?: ?(?:<-+|<=+|[←⇐]) ?|(?:^|[ _-])from[ _-])"
_FROM_CLIENT: Final = re.compile(
    rf"(?i){_CLIENT}{_TO}|{_TO}{_SERVER}|{_BY}{_CLIENT}|{_SERVER}{_BY}|clientToServer|\bc2s\b|\bstdin\b"
).search
_FROM_SERVER: Final = re.compile(
    rf"(?i){_SERVER}{_TO}|{_TO}{_CLIENT}|{_BY}{_SERVER}|{_CLIENT}{_BY}|serverToClient|\bs2c\b|\bstdout\b"
).search
_DIRECTION_WORDS: Final = re.compile(
    r"(?i)\b(?P<out>sen[dt]|sends|sending|writ(?:e|es|ing)|wrote|outgoing|outbound|tx|(?<=\")out(?=\"))\b"
    r"|\b(?P<in>receive[ds]?|receiving|recv|reads?|reading|got|incoming|inbound|onmessage|rx|(?<=\")in(?=\"))\b"
    r"|(?P<right>(?<![-=<])[-=]+>(?!>)|>{2,3}|[→⇒📤]|^ *> *$)|(?P<left><[-=]+(?![-=>])|<{2,3}|[←⇐📥]|^ *< *$)"
).finditer
_SENT_GROUPS: Final = ("out", "right")
_WITHOUT_DIGITS: Final = re.compile(r"\b\d+").sub
_EPOCH: Final = re.compile(r'"(?:t|ts|time|timestamp)": ?(\d{13}|\d{10}(?:\.\d{1,9})?)[,}]').search
_OPPOSITE: Final[dict[Direction, Direction]] = {"c2s": "s2c", "s2c": "c2s"}


class _Message(NamedTuple):
    """A message in a text."""

    raw: bytes
    is_whole: bool
    context: str
    """The text before it, and, if that is JSON, the text after it."""


def sniff(head: bytes, file_name: str) -> bool:
    """Returns whether the log contains a message."""
    if not _VERSION(head):
        return False
    return any(
        isinstance(message, _Message)
        for entry in _entries(Log(io.BytesIO(head), file_name))
        for message in _messages(entry)
    )


def read(log: Log) -> Iterator[Item]:
    """Read a log."""
    sent_side = _sent_side(log)
    for entry in _entries(log):
        for message in _messages(entry):
            if isinstance(message, LeftOut):
                yield message
                continue
            time = _time(message.context)
            side = _side(message.context, sent_side)
            yield LoggedFrame(log.name, side, message.raw, time.stamp_ns, time.is_exact, message.is_whole)


def _entries(log: Log) -> Iterator[PrintedEntry | LeftOut]:
    return printed_entries(log, _find_object)


def _find_object(line: bytes) -> int | None:
    match = _OBJECT(line)
    return match.start() if match else None


def _messages(entry: PrintedEntry | LeftOut) -> Iterator[_Message | LeftOut]:
    """Yields the messages of an entry, and skips other objects."""
    if isinstance(entry, LeftOut):
        yield entry
        return
    body = entry.body
    if b"jsonrpc" not in body:
        return
    prefix = (
        entry.prefix if entry.prefix.strip() or not _INTRODUCTION(entry.before[-MAX_CONTEXT_BYTES:]) else entry.before
    )
    is_json = (prefix + body[:1]).lstrip().startswith(b"{")
    start = end = failure_count = count = 0
    while failure_count < MAX_ENCLOSING_OBJECTS and (match := _OBJECT(body, start)):
        message = _message(body, match.start(), entry.end if not match.start() else None)
        if message is None:
            start, failure_count = match.end(), failure_count + 1
            continue
        context_before = (b"" if count else prefix) + body[end : match.start()]
        raw, end, is_whole = message
        suffix = body[end : end + MAX_CONTEXT_BYTES] if is_json else b""
        yield _Message(raw, is_whole, (context_before[-MAX_CONTEXT_BYTES:] + suffix).decode("utf-8", "replace"))
        start, count = end, count + 1
    if not count and _VERSION(body):
        raw_part = _shortened_message(body)
        if raw_part is not None:
            yield _Message(raw_part, False, prefix[-MAX_CONTEXT_BYTES:].decode("utf-8", "replace"))
            return
        yield LeftOut(f"line {entry.number}", "expected a JSON-RPC message")


def _message(text: bytes, start: int, known_end: int | None) -> tuple[bytes, int, bool] | None:
    """Returns the message at `start`, the offset after it, and whether it is whole; None if there is no message.

    `known_end` is that offset, if the caller knows it.
    """
    if known_end is None and (message := _printed_to_the_end(text[start:])) is not None:
        return message, len(text), True
    end = known_end or end_of_value(text, start)
    raw = text[start:end]
    try:
        value = loads(raw)
    except JSONDecodeError:
        printed_message = printed_object(raw.decode("utf-8", "replace"))
        if printed_message is None or not _is_message(printed_message.members):
            return None
        return printed_message.json, end or len(text), printed_message.is_whole and end is not None
    first_value = value[0] if isinstance(value, list) and value else value
    return (raw, end or len(text), True) if isinstance(first_value, dict) and "jsonrpc" in first_value else None


def _printed_to_the_end(text: bytes) -> bytes | None:
    """Returns the message that a text is, as JSON, if it differs from JSON only in its quotes; otherwise None.

    Most printed messages are like this, and looking for the end of an object takes three times as long.
    """
    members = json_like_members(text.decode("utf-8", "replace")) if cannot_be_json(text) else None
    return None if members is None or not _is_message(members) else json_of(members)


def _is_message(members: dict[str, Any]) -> bool:
    return "jsonrpc" in members and not _KIND_MEMBERS.isdisjoint(members)


def _shortened_message(body: bytes) -> bytes | None:
    """Complete the rest of a shortened message; returns None if too little is left."""
    starts = [match.start() for match in islice(_OBJECTS(body, 0, MAX_SHORTENED_BYTES), MAX_ENCLOSING_OBJECTS)]
    end = body[-MAX_CONTEXT_BYTES:].decode("utf-8", "replace").rstrip()
    for text in (body[start:MAX_SHORTENED_BYTES].decode("utf-8", "replace") for start in starts):
        omission = _OMISSION(text)
        is_cut = omission is not None or len(body) > MAX_SHORTENED_BYTES
        raw = complete_message(text[: omission.start()] if omission else text, "…", end if is_cut else "")
        if raw is not None and _is_identified(first_message(raw)):
            return raw
    return None


def _is_identified(message: dict[str, Any]) -> bool:
    """Whether a shortened message still has a whole method or id, and `jsonrpc` unless it has the id of a response."""
    is_cut = any(str(message.get(name)).endswith("…") for name in ("method", "id"))
    return not is_cut and ("jsonrpc" in message or ("id" in message and "method" not in message))


def _side(context: str, sent_side: Direction) -> Direction | None:
    """Returns the direction of a message by the words around it, or None if they do not say.

    `sent_side` is the direction of messages sent by the side that wrote the log.
    """
    named_side, is_sent = _stated_direction(_WITHOUT_DIGITS("", context))
    if named_side is not None or is_sent is None:
        return named_side
    return sent_side if is_sent else _OPPOSITE[sent_side]


@lru_cache(1024)
def _stated_direction(words: str) -> tuple[Direction | None, bool | None]:
    """Returns the direction that the words around a message name, and whether they say that it was sent or received.

    The words closest to the message decide. Words take precedence over arrows, since `→` may mean "leads to".
    """
    is_from_client, is_from_server = bool(_FROM_CLIENT(words)), bool(_FROM_SERVER(words))
    named_side: Direction = "c2s" if is_from_client else "s2c"
    groups = [match.lastgroup or "" for match in _DIRECTION_WORDS(words)]
    group = next(reversed([name for name in groups if name in ("out", "in")] or groups), None)
    return None if is_from_client == is_from_server else named_side, None if group is None else group in _SENT_GROUPS


def _sent_side(log: Log) -> Direction:
    """Returns the direction of messages sent by the side that wrote the log: the client, if the log does not show it."""
    for entry in _entries(Log(io.BytesIO(log.head), log.file_name)):
        for message in _messages(entry):
            if isinstance(message, LeftOut):
                continue
            side = certain_side(first_message(message.raw).get("method"))
            named_side, is_sent = _stated_direction(_WITHOUT_DIGITS("", message.context))
            if side is not None and is_sent is not None and named_side is None:
                return side if is_sent else _OPPOSITE[side]
    return "c2s"


def _time(context: str) -> LoggedTime:
    match = _EPOCH(context)
    if match is None:
        return time_in_text(context)
    digits = match[1].replace(".", "")
    return LoggedTime(int(digits.ljust(19, "0")[:19]), len(digits) > 10)


FORM = Form(
    title="text that contains JSON-RPC messages",
    sniff=sniff,
    read=read,
    limitation="the text has messages as a program printed them, and does not always show who sent them, or when",
    generality=2,
)
