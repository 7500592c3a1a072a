"""Judges the first frames of a session, while orjson is still loading in parallel with the traffic.

A client waits for these frames, so no module is loaded to judge them: the scanner is the C scanner that is built into
CPython. This module judges a frame itself only if nothing about the frame is odd, and leaves all other frames to
`exact_judge`. For any bytes, the verdict is the same as that of `envelope`.
"""

from __future__ import annotations

from captures.limits import (
    MAX_DEPTH,
    MAX_EXACTLY_JUDGED_BYTES,
    MAX_SAFE_INTEGER,
    MAX_SHORT_CHARS,
    NOTIFICATION_PREFIX,
    RESERVED_PREFIX,
)
from captures.record import quote
from captures.verdict import UNJUDGED, Envelope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from captures.verdict import Direction, Kind


def _reject_constant(_constant: str) -> None:
    raise ValueError("NaN and Infinity are not JSON")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is duplicated")
    return members


try:
    from _json import make_scanner

    class _ScannerSettings:
        """The scanner's settings: as for `json.loads`, except that duplicate members, NaN and Infinity are errors."""

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

_NON_REQUEST_PREFIXES: Final = (NOTIFICATION_PREFIX, RESERVED_PREFIX)


def judge_before_forwarding(raw: bytes, direction: Direction = "c2s", *, whole: bool = True) -> Envelope:
    """Returns the verdict on a line that waits to be forwarded.

    An odd line longer than `MAX_EXACTLY_JUDGED_BYTES` is `unjudged`.
    """
    verdict = _judge_flawless(raw) if whole and len(raw) <= MAX_EXACTLY_JUDGED_BYTES else None
    if verdict is not None:
        return verdict
    try:
        from captures.exact_judge import judge_before_forwarding as judge
    except ImportError:  # an upgrade has removed the module since this process started
        return UNJUDGED
    return judge(raw, direction, whole=whole)


def _judge_flawless(raw: bytes) -> Envelope | None:
    """Returns the verdict on a flawless request, notification or result, or None for everything else."""
    # In all other texts, an id has only one spelling, so its token can be derived from its value.
    if b"\\u" in raw or b"\\/" in raw or b"-0" in raw or raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        return None
    try:
        text = raw.decode()
        message, end = _scan(text, 0)
    except (ValueError, StopIteration, RecursionError, SystemError):
        # SystemError: the scanner's exception is defined in `json.decoder`. As long as that is not loaded, the scanner
        # fails without setting an exception, which the interpreter reports. Once it is loaded, this is a ValueError.
        return None
    if type(message) is not dict or end != len(text) or message.get("jsonrpc") != "2.0" or "error" in message:
        return None
    id_token = _id_token(message)
    kind = None if id_token is None else kind_of(message, has_id=bool(id_token))
    return kind and Envelope(kind, id_token or None, message.get("method"))


def _id_token(message: dict[str, Any]) -> bytes | None:
    """Returns the id as JSON, empty bytes if there is none, or None if it is odd."""
    if "id" not in message:
        return b""
    id_value = message["id"]
    if type(id_value) is int:
        return b"%d" % id_value if -MAX_SAFE_INTEGER <= id_value <= MAX_SAFE_INTEGER else None
    return quote(id_value).encode() if type(id_value) is str and len(id_value) <= MAX_SHORT_CHARS else None


def kind_of(message: dict[str, Any], *, has_id: bool) -> Kind | None:
    """Returns the kind of message that an object is, or None if anything about it, apart from its id, is odd."""
    if "method" not in message:
        return "response" if has_id and type(message.get("result")) is dict else None
    method = message["method"]
    is_flawless = (
        type(method) is str
        and 0 < len(method) <= MAX_SHORT_CHARS
        and not method.startswith(_NON_REQUEST_PREFIXES if has_id else RESERVED_PREFIX)
        and type(message.get("params", message)) is dict
        and "result" not in message
    )
    return ("request" if has_id else "notification") if is_flawless else None
