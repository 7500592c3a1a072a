"""Order: which of the client's items is next, and what it waits for."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from analysis.playback.items import Item
from analysis.playback.script import Script
from analysis.protocol.methods import METHODS, REQUEST_METHODS
from mcpproxy.replay.open_calls import OpenCall, OpenCalls
from mcpproxy.replay.server_requests import ServerRequests

PATIENCE_NS: Final = 1_000_000_000
"""How long to wait for what an item may not depend on: a notification that the client may have reacted to, a request
of the server outside a call, the items before a response."""
_REACTED_TO: Final = frozenset(
    name
    for name, method in METHODS.items()
    if method.sender == "server" and name.startswith("notifications/") and name != "notifications/message"
)
"""Notifications to which a client reacts."""
PROGRESS: Final = "notifications/progress"


class Order:
    """The recorded order of one connection. Responses of the client are not part of it."""

    def __init__(
        self,
        script: Script,
        numbers: Sequence[int],
        skipped: frozenset[int],
        open_calls: OpenCalls,
        server_requests: ServerRequests,
    ) -> None:
        """Begin at the first of the client's items.

        Args:
            script: the complete script.
            numbers: the numbers of all items of the connection, in order.
            skipped: the client's items among them that are not sent.
            open_calls: the calls that are open, which the caller keeps up to date.
            server_requests: the server's requests, which the caller keeps up to date.
        """
        self._script, self._numbers, self._skipped = script, numbers, skipped
        self._open, self._server_requests = open_calls, server_requests
        self.next: Item | None = None
        """The next item; None if there is none."""
        self.free_ns: int | None = None
        """When the last obstacle to the next item was gone; None if there still is one."""
        self.left: list[OpenCall] = []
        """The calls whose HTTP exchanges the client had closed before the next item, and that may be open now."""
        self._position = 0
        """The position in `numbers` of what has been looked at."""
        self._awaited: set[int] = set()
        """The calls that had been answered before the next item, and may be open now."""
        self._hoped_for: list[Item] = []
        """What else had come before the next item."""
        self._followed_ns = 0
        """The recorded stamp of the last event that the next item follows."""
        self._in_vain: set[str] = set()
        """Methods of notifications that were awaited once and did not come."""
        self._came: Counter[str] = Counter()
        self._expected: Counter[str] = Counter()
        self.advance()

    def advance(self) -> None:
        """Move to the client's next item."""
        if self.next is not None:
            self._followed_ns = self.next.t_ns
        self.next, self.free_ns, self._hoped_for = None, None, []
        items = self._script.items
        while self._position < len(self._numbers):
            item = items[self._numbers[self._position]]
            self._position += 1
            if item.sender == "server":
                self._note_server_item(item)
            elif item.kind == "response":
                if item.call >= 0:
                    self._hoped_for.append(item)
            elif item.number not in self._skipped:
                self.next = item
                self._note_failures(item.t_ns)
                return
        self._note_failures(None)

    def _note_server_item(self, item: Item) -> None:
        if item.kind in ("response", "batch"):
            for call in [member.call for member in item.members if member.kind == "response"] or [item.call]:
                if call in self._open:
                    self._awaited.add(call)
                    self._followed_ns = item.t_ns
        elif item.kind == "notification" and item.method in _REACTED_TO:
            self._expected[item.method] += 1
            self._hoped_for.append(item)

    def _note_failures(self, recorded_ns: int | None) -> None:
        for call in self._open.failed_before(recorded_ns):
            if call.is_left:
                self.left.append(call)
            self._awaited.add(call.number)

    def is_free(self, now_ns: int) -> bool:
        """Whether the next item no longer waits for anything that must or may come before it."""
        self._awaited = {call for call in self._awaited if call in self._open}
        if self._awaited:
            return False
        if self.free_ns is None:
            self.free_ns = now_ns
        missing = {item.method for item in self._hoped_for if self._is_hoped_for(item)}
        if missing and now_ns < self.free_ns + PATIENCE_NS:
            return False
        self._in_vain |= missing
        self._hoped_for = []
        return True

    def _is_hoped_for(self, item: Item) -> bool:
        if item.method in self._in_vain:
            return False
        if item.kind == "response":
            return item.method in REQUEST_METHODS and not self._server_requests.has_come(item.call)
        return self._came[item.method] < self._expected[item.method]

    def note_notification(self, method: str) -> None:
        """Note that the server sent a notification."""
        if method in _REACTED_TO:
            self._came[method] += 1

    @property
    def pause_ns(self) -> int:
        """How long after the last event before it the next item was sent in the recording."""
        return 0 if self.next is None else max(0, self.next.t_ns - self._followed_ns)

    @property
    def next_look_ns(self) -> int | None:
        """When the wait for what came before the next item ends; None if nothing is awaited."""
        return None if self.free_ns is None or not self._hoped_for else self.free_ns + PATIENCE_NS

    @property
    def is_more_expected(self) -> bool:
        """Whether something of the recording has not come from the server, apart from answers."""
        return self._server_requests.is_any_expected or any(
            self._came[method] < count and method not in self._in_vain for method, count in self._expected.items()
        )

    @property
    def unsent_count(self) -> int:
        """How many of the client's items are still to be sent."""
        items = self._script.items
        rest = (items[number] for number in self._numbers[self._position :])
        return (self.next is not None) + sum(
            item.sender == "client" and item.kind != "response" and item.number not in self._skipped for item in rest
        )
