"""The less common places of a capture: odd frames, words of the protocol, records of other types."""

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

from captures.exact_judge import judge_exactly
from captures.record import frame_members, members, part_members
from tests.mcpproxy.sharing.places import Place, Tape, dumped
from tests.mcpproxy.sharing.written import HEADER

FILLER: Final = "filler words "
_PLAIN: Final = b'{"jsonrpc":"2.0","id":7,"result":{}}'
_HASH: Final = "hmac:0123456789abcdef"


def message(**more: Any) -> bytes:
    """A response, or whatever the members make of it."""
    return dumped({"jsonrpc": "2.0", "id": 7, **more})


def _all(build: Callable[[list[str]], bytes], **more: Any) -> Place:
    """A frame for all texts."""
    return lambda tape, texts: tape.frame(build(list(texts)), **more)


def _each(build: Callable[[str], bytes], **more: Any) -> Place:
    """A frame for each text."""

    def plant(tape: Tape, texts: Sequence[str]) -> None:
        for text in texts:
            tape.frame(build(text), **more)

    return plant


def _records(rec: str, **build: Callable[[str], Any]) -> Place:
    """A record for each text."""

    def plant(tape: Tape, texts: Sequence[str]) -> None:
        for number, text in enumerate(texts, 1):
            plain = text.replace("\n", " ")
            tape.record(rec, members(conn=1, exchange=number, **{name: make(plain) for name, make in build.items()}))

    return plant


def _in_request(**build: Callable[[str], Any]) -> Place:
    def request(text: str) -> dict[str, Any]:
        parts = {name: make(text) for name, make in build.items()}
        return {"method": "POST", "target": "/mcp", "version": "HTTP/1.1", "headers": [], **parts}

    return _records("exchange", stage=lambda _text: "request", request=request)


def _target(text: str) -> str:
    return f"/mcp/{quote(text, safe=':@=')}?key={quote(text, safe='')}"


def _parts(tape: Tape, texts: Sequence[str]) -> None:
    """A frame in parts, one of which ends within a secret."""
    raw = message(result={"v": [FILLER * 7_000, *texts, FILLER * 7_000]})
    cut = raw.index(texts[1].encode()) + 10
    pieces = [raw[: cut - 50_000], raw[cut - 50_000 : cut], raw[cut : cut + 50_000], raw[cut + 50_000 :]]
    for number, piece in enumerate(pieces, 1):
        tape.record("part", part_members("s2c", number, piece))
    tape.record("frame", frame_members("s2c", b"", judge_exactly(raw), parts=(len(pieces), len(raw))))


def _part_without_an_end(tape: Tape, texts: Sequence[str]) -> None:
    for number, text in enumerate(texts, 1):
        tape.record("part", part_members("c2s", number, b'{"a":' + dumped(text)))


def _event_id(tape: Tape, texts: Sequence[str]) -> None:
    for number, text in enumerate(texts, 1):
        plain = text.replace("\n", " ")
        tape.frame(_PLAIN, conn=1, exchange=number, unit="sse_event", event_id=plain)
        tape.record("stream", members(conn=1, exchange=number, dir="s2c", event="opened", last_event_id=plain))


def _unknown_member(tape: Tape, texts: Sequence[str]) -> None:
    for text in texts:
        tape.record("frame", frame_members("s2c", _PLAIN, judge_exactly(_PLAIN)) + b',"x_more":' + dumped(text))


def _no_direction(tape: Tape, texts: Sequence[str]) -> None:
    for text in texts:
        tape.record("frame", b',"dir":"up","raw":' + dumped(text))


def _unknown_record(tape: Tape, texts: Sequence[str]) -> None:
    for text in texts:
        tape.record("x_thing", members(a=text, b={text: [text]}))


def _header(tape: Tape, texts: Sequence[str]) -> None:
    """The header of the capture: must come first."""
    command = ["/opt/acme/node", "/srv/acme/x.js", *texts]
    more = {"argv": command, "env": dict.fromkeys(texts, _HASH), "x_note": {"texts": list(texts)}}
    tape.record("header", members(**HEADER, **more))


OTHER_PLACES: Final[dict[str, Place]] = {
    "header of the capture": _header,
    "`_meta` of a request": _each(lambda text: message(method="tools/call", params={"_meta": {"acme/session": text}})),
    "name of the client": _each(lambda text: message(method="initialize", params={"clientInfo": {"name": text}})),
    "name of a parameter": _each(lambda text: message(method="x/y", params={text: "z"})),
    "message of an error": _each(lambda text: message(error={"code": -32000, "message": text})),
    "next to the result": _all(lambda texts: message(result={}, extra=texts)),
    "batch": _all(lambda texts: dumped([json.loads(message(result={"v": text})) for text in texts])),
    "member that occurs twice": _all(
        lambda texts: b'{"jsonrpc":"2.0","id":7,"result":{"v":%b},"result":{}}' % dumped(texts)
    ),
    "second value of a line": _all(lambda texts: message(result={}) + dumped({"v": texts})),
    "after a byte order mark": _all(lambda texts: b"\xef\xbb\xbf" + message(result={"v": texts})),
    "not UTF-8": _all(lambda texts: b'\xff {"a":%b}' % dumped(texts)),
    "piece of a spread message": _all(lambda texts: b'  "v": %b,' % dumped(texts)),
    "150 levels deep": _all(
        lambda texts: b'{"jsonrpc":"2.0","id":7,"result":%b}' % (b"[" * 150 + dumped(texts) + b"]" * 150)
    ),
    "600 levels deep": _all(lambda texts: b"[" * 600 + dumped(texts) + b"]" * 600),
    "image": _each(
        lambda text: message(result={"data": base64.b64encode(b"\x89PNG\xff" * 12 + text.encode()).decode()})
    ),
    "torn": _all(
        lambda texts: b'{"jsonrpc":"2.0","id":7,"result":{"v":%b' % dumped(texts)[:-2], delim=b"", whole=False
    ),
    "torn after a name": _each(
        lambda text: b'{"jsonrpc":"2.0","id":7,"result":{%b' % dumped(text), delim=b"", whole=False
    ),
    "frame in parts": _parts,
    "part without an end": _part_without_an_end,
    "unknown type of record": _unknown_record,
    "unknown member of a frame": _unknown_member,
    "frame without a direction": _no_direction,
    "id of an event": _event_id,
    "HTTP: `Authorization`, `Cookie`, `Host` and others": _in_request(
        headers=lambda text: [
            [name, text]
            for name in ("Authorization", "Cookie", "Host", "Mcp-Name", "User-Agent", "X-Forwarded-Host", "Forwarded")
        ]
    ),
    "HTTP: target": _in_request(target=_target),
    "HTTP: error": _records("exchange", error=lambda text: f"failed: {text}"),
    "HTTP: metadata": _records("exchange", metadata=lambda text: json.dumps({"issuer": text})),
    "HTTP: leg of an authorization": _records(
        "exchange",
        oauth=lambda text: {"leg": "token", "error_description": text, "iss": _target(text), "x": [text]},
    ),
    "HTTP: endpoints": _records("exchange", endpoints=lambda text: [_target(text)]),
    "HTTP: rewritten addresses": _records("exchange", rewritten=lambda text: {"location": _target(text)}),
    "HTTP: rewritten addresses, not an object": _records("exchange", rewritten=str),
}
"""Adds texts to a capture, each at such a place."""

WORDS: Final[dict[str, Place]] = {
    "id": _each(lambda text: message(id=text, result={})),
    "method": _each(lambda text: message(method=text)),
    "name of a tool": _each(lambda text: message(method="tools/call", params={"name": text})),
    "cursor": _each(lambda text: message(result={"tools": [], "nextCursor": text})),
    "progress token": _each(lambda text: message(method="notifications/progress", params={"progressToken": text})),
}
"""The same for words of the protocol, in which hosts and numbers stay."""

NAMES: Final = ("password", "api_key", "clientSecret", "Authorization", "GITHUB_TOKEN", "Cookie", "x-api-key")
"""Names of members whose values are secrets, whatever they look like."""


def under_names(tape: Tape, texts: Sequence[str]) -> None:
    """Add a text under each of `NAMES`."""
    for name, text in zip(NAMES, texts, strict=True):
        tape.frame(message(result={"structuredContent": {name: text, "l": {name: [text]}}}))


def as_numbers(tape: Tape, texts: Sequence[str]) -> None:
    """Add a PIN and the number of a card as numbers."""
    for name, digits in zip(("pin", "n"), texts, strict=True):
        tape.frame(b'{"jsonrpc":"2.0","id":7,"result":{"%b":%b}}' % (name.encode(), digits.encode()))
