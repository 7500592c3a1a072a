"""Guesses who sent a message, for logs that do not say."""

from typing import Any, Final

from analysis.protocol.extensions import EXTENSION_METHODS
from analysis.protocol.methods import METHODS
from captures.verdict import Direction
from mcpproxy.importers.opening import first_message

MAX_OPEN_REQUESTS: Final = 10_000
"""Unanswered requests whose senders are remembered. Beyond this limit, the oldest is forgotten."""
_OPPOSITE: Final[dict[Direction, Direction]] = {"c2s": "s2c", "s2c": "c2s"}
_SIDES: Final[dict[str, Direction]] = {"client": "c2s", "server": "s2c"}


def certain_side(method: object) -> Direction | None:
    """Returns the direction of messages with a method; None if both sides may send them, or the method is unknown."""
    if not isinstance(method, str):
        return None
    if method in METHODS:
        return _SIDES.get(METHODS[method].sender)
    return _SIDES.get(EXTENSION_METHODS[method][1].sender) if method in EXTENSION_METHODS else None


class SideGuesser:
    """Guesses the directions of the messages of one conversation, in order."""

    def __init__(self) -> None:
        self._senders: dict[object, Direction] = {}
        self._certain_sides: set[Direction] = set()
        """The sides that have sent a message that only they can send."""

    def observe(self, raw: bytes, side: Direction | None) -> Direction:
        """Add the next message; returns its direction, which is `side` if that is known."""
        message = first_message(raw)
        message_side = side or self._guess(message)
        if "method" in message and "id" in message:
            self._senders[repr(message["id"])] = message_side
            if len(self._senders) > MAX_OPEN_REQUESTS:
                del self._senders[next(iter(self._senders))]
        return message_side

    def _guess(self, message: dict[str, Any]) -> Direction:
        method = message.get("method")
        if not isinstance(method, str):
            sender = self._senders.pop(repr(message.get("id")), None)
            # If the request is not in the log, the log has one direction only, or begins late.
            return "s2c" if sender is None else _OPPOSITE[sender]
        side = certain_side(method)
        if side is not None:
            self._certain_sides.add(side)
            return side
        if len(self._certain_sides) == 1:
            return next(iter(self._certain_sides))
        return "s2c" if method == "notifications/progress" else "c2s"
