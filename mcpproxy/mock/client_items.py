"""What the client sent in a recorded session, and how much of it the client of the mock has sent."""

from bisect import bisect_left
from collections import deque
from typing import Final, NamedTuple

from analysis.conversation.message import Id, Notification, id_of
from analysis.playback.incoming import client_messages_in, member_of_params
from analysis.playback.items import Item
from analysis.playback.script import Script

CANCELLED: Final = "notifications/cancelled"


class UnownedItem(NamedTuple):
    """An item of the server that belongs to no request of the client."""

    number: int
    anchor: int
    """The number of the client's item that preceded it in the recording; -1 if there was none."""


class ClientItems:
    """The client's items of a session, scanned as far as the conversation has come, and the server's unowned ones."""

    def __init__(self, script: Script, session: int) -> None:
        """Begin at the start of a session."""
        self._script, self._session = script, session
        self._numbers = script.items_of(session)
        self._position = self._stderr_position = 0
        self._anchor = -1
        """The client's item that was scanned last, even if it is not waited for."""
        self._clients: list[int] = []
        """The numbers of the client's items that were scanned, in order."""
        self._previous: list[int] = [0]
        """For the place of each of them, counted from 1, a place from which to look back for one that was not sent."""
        self._sent: set[int] = set()
        self._missing_requests = 0
        """How many of the requests that were scanned were not sent."""
        self._notifications: dict[str, deque[int]] = {}
        self._cancellations: dict[Id, int] = {}
        """By the recorded id of a request of the client, the last item that cancelled it."""
        self._invalid: deque[int] = deque()
        self._batches: deque[int] = deque()
        """Batches without requests, for which nothing is answered."""
        self._early_notifications: dict[str, int] = {}
        self.unowned: deque[UnownedItem] = deque()
        """The server's items without a request that were scanned and not taken away yet."""
        self.frontier = -1
        """The highest number of a client's item that has been sent to the mock."""

    # ---- scanning

    def scan(self, target: int = -1) -> None:
        """Scan to a number, and at least to the first client's item after the frontier, as far as they were read."""
        numbers, items = self._numbers, self._script.items
        end = len(numbers)
        while self._position < end:
            number = numbers[self._position]
            if number > target and self._last_client > self.frontier:
                return
            self._position += 1
            self._add_stderr_before(number)
            item = items[number]
            if item.sender == "client":
                self._anchor = number
                self._add_client(item)
            elif is_unowned(item):
                self.unowned.append(UnownedItem(number, self._anchor))
        if self._script.is_complete:
            self._add_stderr_before(len(items))

    @property
    def _last_client(self) -> int:
        return self._clients[-1] if self._clients else -1

    def _add_client(self, item: Item) -> None:
        if item.is_repeat:
            return
        if item.kind == "invalid":
            self._invalid.append(item.number)
            return
        if item.kind == "batch" and not any(member.kind == "request" for member in item.members):
            self._batches.append(item.number)
        self._missing_requests += item.kind in ("request", "batch")
        self._clients.append(item.number)
        self._previous.append(len(self._previous))
        if item.kind == "notification":
            if item.method == CANCELLED:
                self._add_cancellation(item)
            if self._early_notifications.get(item.method, 0) > 0:
                self._early_notifications[item.method] -= 1
                self.mark_sent(item.number)
            else:
                self._notifications.setdefault(item.method, deque()).append(item.number)

    def _add_cancellation(self, item: Item) -> None:
        for message in client_messages_in(self._script.raw(item)):
            cancelled = member_of_params(message, "requestId") if isinstance(message, Notification) else None
            if cancelled is not None:
                self._cancellations[id_of(cancelled)] = item.number

    def _add_stderr_before(self, number: int) -> None:
        """Add the lines of stderr up to an item; only a server on stdio has a single client."""
        if self._script.transport != "stdio":
            return
        lines = self._script.items_of(0)
        first = self._numbers[0] if self._numbers and self._session != self._script.sessions[0] else -1
        last = self._end_of_session
        while self._stderr_position < len(lines) and lines[self._stderr_position] < number:
            line = lines[self._stderr_position]
            self._stderr_position += 1
            if first <= line and (last is None or line < last) and is_unowned(self._script.items[line]):
                self.unowned.append(UnownedItem(line, self._anchor))

    @property
    def _end_of_session(self) -> int | None:
        """The number of the first item of the next session; None if there is none so far."""
        sessions = self._script.sessions
        following = sessions.index(self._session) + 1 if self._session in sessions else len(sessions)
        if following >= len(sessions):
            return None
        numbers = self._script.items_of(sessions[following])
        return numbers[0] if numbers else None

    # ---- what was sent

    def mark_sent(self, number: int) -> None:
        """Note that the client of the mock has sent what a recorded client's item holds."""
        self.frontier = max(self.frontier, number)
        self.scan(number)
        if number not in self._sent and self._script.items[number].kind in ("request", "batch"):
            self._missing_requests -= 1
        self._sent.add(number)
        self.give_up(number)

    def give_up(self, number: int) -> None:
        """No longer wait for a client's item."""
        position = bisect_left(self._clients, number)
        if position < len(self._clients) and self._clients[position] == number:
            self._previous[position + 1] = position

    @property
    def is_all_sent(self) -> bool:
        """Whether the client of the mock has sent each recorded request that has been read."""
        self.scan(len(self._script.items))
        return self._missing_requests == 0

    def last_missing(self, after: int, before: int) -> int | None:
        """Returns the last client's item between two items for which to wait; None if there is none.

        A client that sends the same items in the same order sends this one last, so what waits is woken only once.
        """
        self.scan(before)
        position = self._last_waiting(bisect_left(self._clients, before)) - 1
        if position < 0 or self._clients[position] <= after:
            return None
        return self._clients[position]

    def missing_cancellation(self, request: Id, after: int, before: int) -> int | None:
        """Returns the client's item between two items that cancelled a request; None if it was sent, or if none did.

        Args:
            request: the recorded id of the request.
            after: the number of the request's item.
            before: the number of a later item.
        """
        self.scan(before)
        number = self._cancellations.get(request)
        if number is None or not after < number < before or number in self._sent:
            return None
        return number

    def _last_waiting(self, place: int) -> int:
        """Returns the last place up to one whose item is waited for, or 0; shortens the path for the next time."""
        steps, path = self._previous, []
        while place and steps[place] != place:
            path.append(place)
            place = steps[place]
        for passed in path:
            steps[passed] = place
        return place

    def anchor_of(self, number: int) -> int:
        """Returns the last client's item before an item; -1 if there is none."""
        self.scan(number)
        position = bisect_left(self._clients, number)
        return self._clients[position - 1] if position else -1

    def take_notification(self, method: str) -> int | None:
        """Note a notification that the client sends now; returns the recorded item for it by number, or None."""
        self.scan()
        waiting = self._notifications.get(method)
        if waiting:
            number = waiting.popleft()
            self.mark_sent(number)
            return number
        if not self._script.is_complete and self._position >= len(self._numbers):
            self._early_notifications[method] = self._early_notifications.get(method, 0) + 1
        return None

    def take_batch(self) -> int | None:
        """Returns the next recorded batch without a request; None if there is none."""
        self.scan()
        return self._batches.popleft() if self._batches else None

    def take_invalid(self) -> int | None:
        """Note bytes of the client that are not a message; returns the recorded item for them by number, or None."""
        self.scan()
        number = self._invalid.popleft() if self._invalid else None
        if number is not None:
            self.frontier = max(self.frontier, number)
        return number

    def notifications(self, method: str) -> list[int]:
        """Returns the recorded notifications with a method that were scanned and not sent yet."""
        return list(self._notifications.get(method, ()))

    def take_this_notification(self, method: str, number: int) -> None:
        """Note that the client sends one particular recorded notification."""
        self._notifications[method].remove(number)
        self.mark_sent(number)


def is_unowned(item: Item) -> bool:
    """Whether an item of the server belongs to no request of the client."""
    if item.is_repeat or item.outer >= 0 or (item.call >= 0 and item.kind != "request"):
        return False
    return all(member.call < 0 or member.kind == "request" for member in item.members)
