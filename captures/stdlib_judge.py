"""Judges the first frames of a session, while orjson is still loading in parallel with the traffic.

A client waits for these frames, so nothing is loaded for them: the scanner is the one in C that is built into CPython.
It judges a frame only if nothing about it is odd, and leaves the rest to `exact_judge`. The verdict is the same as from
`envelope`, regardless of the bytes.
"""

from __future__ import annotations

from captures.limits import DEEP, EXACT_JUDGE_LIMIT, NOTIFICATIONS, RESERVED, SAFE, SHORT
from captures.record import quote
from captures.verdict import UNJUDGED, Envelope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from captures.verdict import Direction, Kind


def _reject_constant(_constant: str) -> None:
    raise ValueError("NaN and Infinity are no JSON")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member comes twice")
    return members


try:
    from _json import make_scanner

    class _ScannerSettings:
        """The scanner's settings: as in `json.loads`, except for odd values."""

        strict = True
        object_hook = None
        object_pairs_hook = staticmethod(_build_object)
        parse_float = float
        parse_int = int
        parse_constant = staticmethod(_reject_constant)

    _scan: Callable[[str, int], tuple[Any, int]] = make_scanner(_ScannerSettings)  # type: ignore[arg-type] # all it reads
except ImportError:
    from json import JSONDecoder

    _scan = JSONDecoder(parse_constant=_reject_constant, object_pairs_hook=_build_object).raw_decode

_NON_REQUEST_PREFIXES: Final = (NOTIFICATIONS, RESERVED)


def judge_before_forwarding(raw: bytes, direction: Direction = "c2s", *, whole: bool = True) -> Envelope:
    """The verdict on a line that waits to be forwarded; `unjudged` if it is odd and above `EXACT_JUDGE_LIMIT`."""
    verdict = _judge_flawless(raw) if whole and len(raw) <= EXACT_JUDGE_LIMIT else None
    if verdict is not None:
        return verdict
    try:
        from captures.exact_judge import judge_before_forwarding as judge
    except ImportError:  # an upgrade has removed it since we started
        return UNJUDGED
    return judge(raw, direction, whole=whole)


def _judge_flawless(raw: bytes) -> Envelope | None:
    """The verdict on a flawless request, notification or result; None for everything else."""
    # Only without these does an id have a single spelling, so that its value determines its token.
    if b"\\u" in raw or b"\\/" in raw or b"-0" in raw or raw.count(b"[") + raw.count(b"{") > DEEP:
        return None
    try:
        text = raw.decode()
        read, end = _scan(text, 0)
    except (ValueError, StopIteration, RecursionError, SystemError):
        # SystemError: the scanner takes its exception from `json.decoder`, raises none while that is not loaded, and
        # the interpreter complains. In a process that has loaded `json` this is a ValueError.
        return None
    if type(read) is not dict or end != len(text) or read.get("jsonrpc") != "2.0" or "error" in read:
        return None
    token = _id_token(read)
    kind = None if token is None else kind_of(read, is_identified=bool(token))
    return kind and Envelope(kind, token or None, read.get("method"))


def _id_token(read: dict[str, Any]) -> bytes | None:
    """The id as JSON; empty if there is none, None if it is odd."""
    if "id" not in read:
        return b""
    ident = read["id"]
    if type(ident) is int:
        return b"%d" % ident if -SAFE <= ident <= SAFE else None
    return quote(ident).encode() if type(ident) is str and len(ident) <= SHORT else None


def kind_of(read: dict[str, Any], *, is_identified: bool) -> Kind | None:
    """The kind of message that an object is, with or without an id; returns None if anything else about it is odd."""
    if "method" not in read:
        return "response" if is_identified and type(read.get("result")) is dict else None
    method = read["method"]
    is_flawless = (
        type(method) is str
        and 0 < len(method) <= SHORT
        and not method.startswith(_NON_REQUEST_PREFIXES if is_identified else RESERVED)
        and type(read.get("params", read)) is dict
        and "result" not in read
    )
    return ("request" if is_identified else "notification") if is_flawless else None
