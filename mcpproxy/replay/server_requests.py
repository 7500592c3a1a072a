"""The server's requests in a recording, and the client's answers to them, which a replay gives again."""

import json
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from analysis.conversation.message import Message, Number, Request
from analysis.facts import target_name
from analysis.playback.incoming import server_messages_in
from analysis.playback.items import Item
from analysis.playback.matching import Matching
from analysis.playback.script import Script
from analysis.protocol.error_codes import INTERNAL_ERROR, METHOD_NOT_FOUND
from analysis.protocol.methods import REQUEST_METHODS

_TEXT: Final = "mcpproxy replay: not recorded"


class RecordedRequest(NamedTuple):
    """A request of the server in the recording."""

    item: Item
    position: int
    """The position in its batch; 0 if it is not in one."""
    call: int
    """`Call.number`."""
    method: str
    """Untrusted text."""


class ServerRequests:
    """The server's requests of one connection that have not come yet."""

    def __init__(self, script: Script, numbers: Iterable[int], matching: Matching) -> None:
        """Collect the requests among the items with these numbers."""
        self._script, self._matching = script, matching
        self._by_key: dict[str, deque[RecordedRequest]] = {}
        self._by_method: dict[str, deque[RecordedRequest]] = {}
        self._come: set[int] = set()
        """`Call.number` of those that have come."""
        self._answered: set[int] = set()
        """`Call.number` of those that the client answered in the recording, and that have not come."""
        self._messages: tuple[Message, ...] = ()
        """The messages in one recorded item, because a batch may have a hundred thousand."""
        self._messages_of = -1
        for number in numbers:
            item = script.items[number]
            if item.sender == "server" and item.kind in ("request", "batch"):
                self._add(item)

    def _add(self, item: Item) -> None:
        calls = [member.call for member in item.members] or [item.call]
        for (position, message), call in zip(
            enumerate(server_messages_in(self._script.raw(item))), calls, strict=False
        ):
            if isinstance(message, Request):
                request = RecordedRequest(item, position, call, message.method)
                self._by_key.setdefault(self._key_of(message), deque()).append(request)
                self._by_method.setdefault(message.method, deque()).append(request)
                if self._script.answer_of(call) is not None:
                    self._answered.add(call)

    def _key_of(self, request: Request) -> str:
        return self._matching.key_of(request.method, target_name(request.params) or "", request.body.get("params"))

    @property
    def is_any_expected(self) -> bool:
        """Whether a request that the client answered in the recording has not come yet."""
        return bool(self._answered)

    def has_come(self, call: int) -> bool:
        """Whether the recorded request with this `Call.number` has come."""
        return call in self._come

    def take(self, request: Request) -> RecordedRequest | None:
        """Return the recorded request that equals one that came, or else the next of its method; None without one."""
        for queue in (self._by_key.get(self._key_of(request)), self._by_method.get(request.method)):
            while queue:
                recorded = queue.popleft()
                if recorded.call not in self._come and recorded.method == request.method:
                    self._come.add(recorded.call)
                    self._answered.discard(recorded.call)
                    return recorded
        return None

    def message_of(self, recorded: RecordedRequest) -> Request | None:
        """Returns the message of a recorded request; None if it can no longer be read."""
        if self._messages_of != recorded.item.number:
            self._messages = server_messages_in(self._script.raw(recorded.item))
            self._messages_of = recorded.item.number
        message = self._messages[recorded.position] if recorded.position < len(self._messages) else None
        return message if isinstance(message, Request) else None


def id_token(request: Request) -> bytes:
    """Returns the id of a request as a JSON token."""
    value: Any = request.body.get("id")
    return (value.token if isinstance(value, Number) else json.dumps(value)).encode()


def answer_to_unrecorded(request: Request) -> bytes:
    """Returns the answer to a request of the server that is not in the recording: an error, except for a ping."""
    if request.method == "ping":
        outcome = b'"result":{}'
    else:
        code = INTERNAL_ERROR if request.method in REQUEST_METHODS else METHOD_NOT_FOUND
        outcome = b'"error":' + json.dumps({"code": code, "message": _TEXT}).encode()
    return b'{"jsonrpc":"2.0","id":%b,%b}' % (id_token(request), outcome)
