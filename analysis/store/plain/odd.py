"""Odd frames: judged and read by our own code, and handed over as the facts that SQL takes from plain ones."""

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import orjson

from analysis.conversation.assembly import Assembly
from analysis.conversation.call import REASON, Outcome, outcome_of, timed_out, token_of
from analysis.conversation.handshake import text_of
from analysis.conversation.message import Id, Message, Notification, Request, Response, id_of, parse_exactly
from analysis.facts import name_in
from analysis.store.plain.doubt import Doubt
from analysis.store.table_rows import REASON_CUT, error_of, id_text, name_text
from analysis.store.values import text
from captures.frame import Frame
from captures.frames import assembled
from captures.record import Record

FACTS: Final = (
    "seq",
    "t_ns",
    "by_client",
    "exchange",
    "role",
    "key",
    "id",
    "method",
    "size",
    "name",
    "token",
    "told",
    "cancels",
    "reason",
    "is_timeout",
    "outcome",
    "code",
    "error",
    "listing",
    "is_plain",
    "is_quirk",
    "escaped",
)
"""The columns of `said`, in order."""

_QUIRKS: Final = ("initialize", "server/discover", "subscriptions/listen")
_QUIRK_STARTS: Final = ("tasks/", "notifications/tasks")
_PROGRESS: Final = ("notifications/progress", "progress")
_CANCELLED: Final = ("notifications/cancelled", "cancelled")


class OddFrame(NamedTuple):
    """A frame and its only message."""

    frame: Frame
    message: Message


def judged(records: Iterable[Record], *, is_http: bool) -> list[OddFrame]:
    """The frames in records of odd ones, in order.

    Args:
        records: of the frames, and of the parts of giant ones.
        is_http: whether they came over HTTP, and not through a pipe.

    Raises:
        Doubt: one is not just one message.
    """
    frames = list[OddFrame]()
    for record, frame in assembled(records):
        if record is None:
            raise Doubt("a frame without its end")
        if frame is None:
            continue
        if not isinstance(frame, Frame) or frame.seq != record.seq or frame.is_partial:
            raise Doubt("a frame that is not whole")
        if (frame.unit != "line", frame.exchange is not None) != (is_http, is_http):
            raise Doubt("a frame of another transport")
        if is_http and not frame.whole:
            raise Doubt("an event or a body that is cut")  # no client reads it, so it answers nothing
        if not is_http and (frame.conn or frame.event is not None or frame.event_id is not None):
            raise Doubt("a frame that is not of a pipe")
        messages = [*Assembly().feed(frame)]
        if len(messages) != 1 or messages[0].index is not None or messages[0].frames != (frame,):
            raise Doubt("a batch, or a message over several lines")
        frames.append(OddFrame(frame, messages[0]))
    return frames


def facts(frame: Frame, message: Message) -> tuple[Any, ...]:
    """What `said` has about a message."""
    told: dict[str, Any] = dict.fromkeys(FACTS)
    told |= {
        "seq": message.seq,
        "t_ns": message.t_ns,
        "by_client": message.sender == "client",
        "exchange": frame.exchange,
        "size": len(frame.raw),
        "role": "none",
        "is_timeout": False,
        "is_plain": True,
        "is_quirk": False,
        "escaped": 0,
    }
    if isinstance(message, Request):
        _add_request(told, message)
    elif isinstance(message, Notification):
        _add_notification(told, message)
    elif isinstance(message, Response):
        _add_response(told, message)
    return tuple(told[name] for name in FACTS)


def _add_request(told: dict[str, Any], request: Request) -> None:
    if request.as_response() is not None:
        raise Doubt("a request with a result")
    params = request.body.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    token = token_of(meta["progressToken"]) if isinstance(meta, dict) and "progressToken" in meta else None
    told |= {
        "role": "request",
        "key": key(request.id) if request.id.pairs else None,
        "id": id_text(request),
        "method": text(request.method),
        "name": name_text(name_in(params)),
        "token": None if token is None else key(token),
        "is_quirk": _is_quirk(request.method) or _names_protocol(request.body),
    }


def _add_notification(told: dict[str, Any], notification: Notification) -> None:
    params = notification.params if isinstance(notification.params, dict) else {}
    told |= {
        "role": "notification",
        "method": text(notification.method),
        "is_quirk": _is_quirk(notification.method) or _names_protocol(notification.body),
    }
    if notification.method in _PROGRESS:
        token = token_of(params.get("progressToken"))
        told["told"] = None if token is None else key(token)
    elif notification.method in _CANCELLED:
        reason = text_of(params.get("reason"))
        told |= {
            "cancels": key(_named(notification, params.get("requestId"))),
            "reason": None if reason is None else text(reason[:REASON], REASON_CUT),
            "is_timeout": timed_out(None if reason is None else reason[:REASON]),
        }


def _add_response(told: dict[str, Any], response: Response) -> None:
    if "error" in response.body and "result" in response.body:
        raise Doubt("a response with result and error")
    outcome = outcome_of(response, None)
    code, error = error_of(response, outcome) if outcome is not Outcome.RESULT else (None, None)
    result = response.result
    has_task = isinstance(result, dict) and isinstance(result.get("task"), dict)
    told |= {
        "role": "answer",
        "key": None if response.id is None or not response.id.pairs else key(response.id),
        "outcome": str(outcome),
        "code": code,
        "error": error,
        # The same list may come as a plain frame; then its definitions are not new.
        "listing": f"{response.seq}" if isinstance(result, dict) and isinstance(result.get("tools"), list) else None,
        "is_quirk": has_task or outcome in (Outcome.INPUT_REQUIRED, Outcome.TASK) or _names_protocol(response.body),
    }


def _is_quirk(method: str) -> bool:
    return method in _QUIRKS or method.startswith(_QUIRK_STARTS)


def _names_protocol(body: dict[str, Any]) -> bool:
    """Whether a member of `_meta` is one of the protocol's own."""
    return "io.modelcontextprotocol" in json.dumps(body)


def _named(cancellation: Notification, value: object) -> Id:
    """The id that a cancellation names, exactly."""
    if isinstance(value, float):
        value = parse_exactly(cancellation.frames[0].raw)["params"]["requestId"]
    return id_of(value)


def key(id_: Id) -> str:
    """An id as SQL has it: equal for equal ids, of whatever spelling."""
    if id_.type == "string":
        try:
            return orjson.dumps(id_.value).decode()
        except orjson.JSONEncodeError:  # a lone surrogate
            return json.dumps(id_.value)
    return id_.value if id_.type == "number" else f"{id_.type} {id_.value}"
