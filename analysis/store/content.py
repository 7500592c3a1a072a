"""Compares what two messages say, regardless of who wrote them.

Two messages say the same if their params, result or error are equal after parsing: the order of members, white space
and the way a number is written do not count. Neither do the handles that a sender chooses and a bridge may replace:
progress tokens, the ids that cancellations and subscriptions name, and the trace context, which each hop continues.
"""

import json
import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

import orjson

from analysis.conversation.message import MISSING
from analysis.protocol.json_pointer import encode_step

_DIGEST_BYTES: Final = 8
"""The hash of a message fits into a BIGINT, because columns of text would make every load noticeably slower."""
_HANDLES_IN_META: Final = frozenset(
    {"progressToken", "traceparent", "tracestate", "baggage", "io.modelcontextprotocol/subscriptionId"}
)
_HANDLE_OF: Final = {"notifications/progress": "progressToken", "notifications/cancelled": "requestId"}
"""The member of the params that is a handle, by method."""
_MAY_BE_WHOLE: Final = re.compile(rb"[0-9](?:\.0|e)")
"""Occurs in JSON that contains a float without a fraction; `1.0` and `1` are equal."""

_MAX_STEPS: Final = 16
"""The maximum depth of a pointer to a difference."""
_MAX_NAME_CHARS: Final = 60
"""The most characters of each name in such a pointer."""


def params_hash(body: dict[str, Any]) -> int | None:
    """Returns a hash of what a request or notification says, or None if it cannot be compared.

    Args:
        body: the members of the message.
    """
    return _hash(comparable_params(body))


def answer_hash(body: dict[str, Any]) -> int | None:
    """Returns a hash of what a response says, or None if it cannot be compared.

    Args:
        body: the members of the message.
    """
    member, value = comparable_answer(body)
    return _hash(value if member == "result" else {"error": value})


def comparable_params(body: dict[str, Any]) -> Any:
    """Returns the params without handles; absent ones are an empty object."""
    params = body.get("params")
    if params is None:
        return {}
    handle = _HANDLE_OF.get(body.get("method", ""))
    if handle is not None and isinstance(params, dict):
        params = {name: value for name, value in params.items() if name != handle}
    return _without_handles(params)


def comparable_answer(body: dict[str, Any]) -> tuple[str, Any]:
    """Returns the member with the answer, `result` or `error`, and its value without handles."""
    if "error" in body and (body["error"] is not None or "result" not in body):
        return "error", body["error"]
    return "result", _without_handles(body.get("result"))


def _without_handles(value: Any) -> Any:
    """Returns params or a result without the handles in `_meta`, and without a `_meta` that contains nothing else."""
    if type(value) is not dict or not isinstance(meta := value.get("_meta"), dict):
        return value
    kept = {name: member for name, member in meta.items() if name not in _HANDLES_IN_META}
    if len(kept) == len(meta) and kept:
        return value
    return {name: kept if name == "_meta" else member for name, member in value.items() if name != "_meta" or kept}


def _hash(value: Any) -> int | None:
    # This runs for every message of a load.
    try:
        raw = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        if _MAY_BE_WHOLE.search(raw):
            raw = orjson.dumps(with_integers(value), option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONEncodeError, RecursionError):
        # Lone surrogates, integers beyond 64 bits, or numbers that are kept as their tokens.
        try:
            raw = json.dumps(with_integers(value), sort_keys=True).encode()
        except (ValueError, RecursionError):
            return None
    return int.from_bytes(blake2b(raw, digest_size=_DIGEST_BYTES).digest(), "big", signed=True)


def with_integers(value: Any) -> Any:
    """Returns a parsed value with whole numbers as integers, so that equal numbers look the same.

    Raises:
        RecursionError: the value is nested too deeply.
    """
    if isinstance(value, dict):
        return {name: with_integers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [with_integers(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def first_difference(one: Any, other: Any) -> str:
    """Returns a JSON Pointer to the first place at which two values differ, as far as it is not too deep.

    Args:
        one: a parsed value. Names that the pointer quotes are cut, and not safe on a screen.
        other: a value that differs from it.
    """
    pointer = ""
    for _ in range(_MAX_STEPS):
        step = _differing_member(one, other)
        if step is None:
            break
        pointer += f"/{encode_step(str(step), _MAX_NAME_CHARS)}"
        one, other = _member(one, step), _member(other, step)
    return pointer


def _differing_member(one: Any, other: Any) -> str | int | None:
    """Returns the name or index of the first member that differs, or None if there is none, or no members."""
    if isinstance(one, dict) and isinstance(other, dict):
        names: Iterable[str | int] = [*one, *(name for name in other if name not in one)]
    elif isinstance(one, list) and isinstance(other, list):
        names = range(max(len(one), len(other)))
    else:
        return None
    try:
        return next((name for name in names if _member(one, name) != _member(other, name)), None)
    except RecursionError:
        return None


def _member(value: Any, name: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(name, MISSING)
    return value[name] if isinstance(value, list) and isinstance(name, int) and name < len(value) else MISSING
