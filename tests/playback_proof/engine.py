"""Plays a capture to its own client in this process: the engine of the mock, fed with what the client sent.

The clock is simulated, so nothing waits. The client is patient and orderly: it sends what it sent in the recorded
order, each message when everything that the server had sent before has arrived or cannot arrive any more. Its ids and
progress tokens are not the recorded ones (`renamed`), so an answer fits only if the mock translates them.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from analysis.playback.matching import Matching
from analysis.playback.script import Script
from analysis.reading import Reading
from captures.frame import Frame
from captures.verdict import Direction
from mcpproxy.mock.conversation import Conversation
from mcpproxy.mock.options import MockOptions
from tests.analysis.store.capture_writer import CaptureWriter

STEP_NS = 1_000_000
"""How far the simulated clock moves between two messages of the client."""


class Heard(NamedTuple):
    """One unit of bytes of a conversation."""

    direction: Direction
    raw: bytes
    t_ns: int


class Played(NamedTuple):
    """A conversation as recorded, and as the mock played it."""

    old: Path
    """The recorded messages as a capture of stdio, with the client's ids and tokens renamed."""
    new: Path
    """The same of what the mock said."""
    missing: list[bytes]
    """What the server had said and the mock did not, renamed."""
    extra: list[bytes]
    """What the mock said and the server had not."""
    is_in_order: bool
    """Whether the mock said the same messages in the same order."""


def play(capture: Path, folder: Path) -> Played:
    """Play a capture to its own client, session by session.

    Raises:
        CaptureError: the capture cannot be read.
    """
    recorded = _recorded(capture)
    script = Script(capture, Matching())
    try:
        while script.grow():
            pass
        old: list[Heard] = []
        new: list[Heard] = []
        for session in script.sessions:
            told = [Heard(heard.direction, renamed(heard), heard.t_ns) for heard in recorded.get(session, [])]
            old += told
            new += _conversation(Conversation(script, session, MockOptions()), told)
    finally:
        script.close()
    said, played = ([heard.raw for heard in side if heard.direction == "s2c"] for side in (old, new))
    missing, extra = Counter(map(canonical, said)), Counter(map(canonical, played))
    return Played(
        _written(folder / "old.mcpcap", old),
        _written(folder / "new.mcpcap", new),
        [*(missing - extra).elements()],
        [*(extra - missing).elements()],
        [*map(canonical, said)] == [*map(canonical, played)],
    )


def _recorded(capture: Path) -> dict[int, list[Heard]]:
    """Returns the units of each session in order, without those that repeat others."""
    found: dict[int, list[Heard]] = {}
    for step in Reading(capture).to_end():
        if isinstance(step.item, Frame) and not step.item.is_ignored and step.item.whole and step.messages:
            context = step.messages[0]
            if not context.is_repeat:
                heard = Heard(step.item.dir, step.item.raw, step.item.t_ns)
                found.setdefault(context.session.number, []).append(heard)
    return found


def _conversation(mock: Conversation, told: list[Heard]) -> list[Heard]:
    now = 1_000 * STEP_NS
    heard: list[Heard] = []
    due = 0
    """How many messages the server had sent before the client's next one."""

    def listen(count: int) -> None:
        nonlocal now
        while True:
            sent = [outgoing for outgoing in mock.due(now) if not outgoing.is_stderr and outgoing.raw]
            heard.extend(Heard("s2c", outgoing.raw, now) for outgoing in sent)
            if sent:
                continue
            wake = mock.next_due_ns
            if wake is None or sum(unit.direction == "s2c" for unit in heard) >= count:
                return
            now = max(now + 1, wake)

    for unit in told:
        if unit.direction == "s2c":
            due += 1
            continue
        listen(due)
        now += STEP_NS
        heard.append(Heard("c2s", unit.raw, now))
        mock.receive(unit.raw, now)
    listen(len(told) + 1)
    return heard


def _written(path: Path, units: list[Heard]) -> Path:
    path.unlink(missing_ok=True)
    writer = CaptureWriter(path, "proof", 1)
    last = 0
    for number, unit in enumerate(units):
        last = number
        writer.raw(number, unit.direction, unit.raw)
    return writer.close(last + 1)


def canonical(raw: bytes) -> bytes:
    """Returns a message in a form that does not depend on whitespace between members."""
    try:
        return json.dumps(json.loads(raw)).encode()
    except (ValueError, RecursionError):
        return raw


def renamed(heard: Heard) -> bytes:
    """Returns a message with other ids of the client's requests and other progress tokens of the client."""
    try:
        value = json.loads(heard.raw)
    except (ValueError, RecursionError):
        return heard.raw
    changed = _renamed(value, heard.direction == "c2s")
    return json.dumps(changed).encode() if changed != value else heard.raw


def _renamed(message: Any, is_client: bool) -> Any:
    if isinstance(message, list):
        return [_renamed(member, is_client) for member in message]
    if not isinstance(message, dict):
        return message
    message = dict(message)
    if "id" in message and ("method" in message) == is_client:
        message["id"] = _other(message["id"])
    params = message.get("params")
    if isinstance(params, dict):
        params = message["params"] = dict(params)
        meta = params.get("_meta")
        if is_client and isinstance(meta, dict) and "progressToken" in meta and "method" in message:
            params["_meta"] = {**meta, "progressToken": _other(meta["progressToken"])}
        if not is_client and message.get("method") == "notifications/progress" and "progressToken" in params:
            params["progressToken"] = _other(params["progressToken"])
        if is_client and message.get("method") == "notifications/cancelled" and "requestId" in params:
            params["requestId"] = _other(params["requestId"])
    _rename_subscription(message, is_client)
    return message


def _rename_subscription(message: dict[str, Any], is_client: bool) -> None:
    key = "io.modelcontextprotocol/subscriptionId"
    for name in ("params", "result"):
        holder = message.get(name)
        if is_client or not isinstance(holder, dict):
            continue
        meta = holder.get("_meta")
        if isinstance(meta, dict) and key in meta:
            message[name] = {**holder, "_meta": {**meta, key: _other(meta[key])}}


def _other(value: Any) -> Any:
    """Returns another id or token of the same type; what is neither a text nor a number stays."""
    if isinstance(value, str):
        return f"{value}-now"
    if isinstance(value, int) and not isinstance(value, bool):
        return value + 1_000
    return value
