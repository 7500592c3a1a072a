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
from captures.verdict import Direction
from mcpproxy.mock.conversation import Conversation
from mcpproxy.mock.options import MockOptions
from mcpproxy.mock.outgoing import Outgoing
from tests.analysis.store.capture_writer import CaptureWriter

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
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

    @property
    def is_exact(self) -> bool:
        """Whether the mock said the same messages, and nothing else, in the same order."""
        return self.is_in_order and not self.missing and not self.extra


def play(capture: Path, folder: Path) -> Played:
    """Play a capture to its own client, session by session.

    Raises:
        CaptureError: the capture cannot be read.
    """
    script = Script(capture, Matching())
    old: list[Heard] = []
    new: list[Heard] = []
    try:
        while script.grow():
            pass
        for session in script.sessions:
            told = renamed(_recorded(script, session))
            old += told
            new += _conversation(Conversation(script, session, MockOptions()), told)
    finally:
        script.close()
    said, played = ([canonical(heard.raw) for heard in side if heard.direction == "s2c"] for side in (old, new))
    missing, extra = Counter(said), Counter(played)
    return Played(
        _written(folder / "old.mcpcap", old),
        _written(folder / "new.mcpcap", new),
        [*(missing - extra).elements()],
        [*(extra - missing).elements()],
        said == played,
    )


def _recorded(script: Script, session: int) -> list[Heard]:
    """Returns what both sides sent in a session, in order, without what only repeats an earlier item."""
    items = (script.items[number] for number in script.items_of(session))
    found = [
        Heard("c2s" if item.sender == "client" else "s2c", script.raw(item), item.t_ns)
        for item in items
        if not item.is_repeat and item.kind not in ("priming", "stderr") and item.event is None
    ]
    return [unit for unit in found if unit.raw]  # an `Outgoing` without bytes only marks an end


def _conversation(mock: Conversation, told: list[Heard]) -> list[Heard]:
    now = 1_000 * STEP_NS
    heard: list[Heard] = []
    due = 0
    """How many messages the server had sent before the client's next one."""

    def listen(count: int) -> None:
        nonlocal now
        while True:
            sent = [outgoing for outgoing in mock.due(now) if not outgoing.is_stderr and outgoing.raw]
            heard.extend(Heard("s2c", outgoing.raw, now) for outgoing in sent if not is_no_message(outgoing))
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


def is_no_message(outgoing: Outgoing) -> bool:
    """Whether it is a text in place of a message, such as a page of a gateway, or an event that clients ignore."""
    http = outgoing.http
    is_text = http is not None and bool(http.text) and outgoing.raw == http.text.encode("utf-8", "replace")
    is_page = is_text and not any("jsonrpc" in message for message in _messages(outgoing.raw))
    return is_page or outgoing.event is not None


def renamed(units: list[Heard]) -> list[Heard]:
    """Returns a conversation with other ids of the client's requests, and other progress tokens of the client."""
    renaming = _Renaming()
    for unit in units:
        for message in _messages(unit.raw):
            renaming.note(message, is_client=unit.direction == "c2s")
    return [unit._replace(raw=renaming.renamed(unit)) for unit in units]


def _messages(raw: bytes) -> list[dict[str, Any]]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return []
    return [member for member in (value if isinstance(value, list) else [value]) if isinstance(member, dict)]


class _Renaming:
    """Which ids and tokens a client chose; those become others, wherever they are."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._server_ids: set[str] = set()
        self._tokens: set[str] = set()

    def note(self, message: dict[str, Any], *, is_client: bool) -> None:
        """Note the id and the token of a request."""
        if "method" not in message or "id" not in message:
            return
        (self._ids if is_client else self._server_ids).add(json.dumps(message["id"]))
        meta = message["params"].get("_meta") if isinstance(message.get("params"), dict) else None
        if is_client and isinstance(meta, dict) and "progressToken" in meta:
            self._tokens.add(json.dumps(meta["progressToken"]))

    def renamed(self, unit: Heard) -> bytes:
        """Returns the bytes of a unit with other ids and tokens; the same bytes if it has none."""
        try:
            value = json.loads(unit.raw)
        except (ValueError, RecursionError):
            return unit.raw
        changed = self._of(value, unit.direction == "c2s")
        return unit.raw if changed == value else json.dumps(changed).encode()

    def _of(self, message: Any, is_client: bool) -> Any:
        if isinstance(message, list):
            return [self._of(member, is_client) for member in message]
        if not isinstance(message, dict):
            return message
        message = dict(message)
        if "id" in message and ("method" in message) == is_client:
            message["id"] = self._id(message["id"])
        if not isinstance(params := message.get("params"), dict):
            params = {}
        meta = params.get("_meta")
        if is_client and "id" in message and isinstance(meta, dict) and "progressToken" in meta:
            message["params"] = {**params, "_meta": {**meta, "progressToken": self._token(meta["progressToken"])}}
        method = message.get("method")
        if not is_client and method == "notifications/progress" and "progressToken" in params:
            message["params"] = {**params, "progressToken": self._token(params["progressToken"])}
        if method == "notifications/cancelled" and "requestId" in params:
            id_ = params["requestId"]
            if is_client or json.dumps(id_) not in self._server_ids:
                message["params"] = {**params, "requestId": self._id(id_)}
        for name in ("params", "result") if not is_client else ():
            holder = message.get(name)
            if isinstance(holder, dict) and isinstance(meta := holder.get("_meta"), dict) and SUBSCRIPTION in meta:
                message[name] = {**holder, "_meta": {**meta, SUBSCRIPTION: self._id(meta[SUBSCRIPTION])}}
        return message

    def _id(self, value: Any) -> Any:
        return other(value) if json.dumps(value) in self._ids else value

    def _token(self, value: Any) -> Any:
        return other(value) if json.dumps(value) in self._tokens else value


def other(value: Any) -> Any:
    """Returns another id or token of the same type; what is neither a text nor a number stays."""
    if isinstance(value, str):
        return f"{value}-now"
    if isinstance(value, int) and not isinstance(value, bool):
        return value + 1_000
    return value
