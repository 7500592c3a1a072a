"""Notes, in the worker: rare facts about calls and messages, which have no column; each is sent as JSON.

There are five sorts, which `Conversation` stores: which message or HTTP exchange cancelled a call (`cancelled`), which
call a message cancels (`cancels`), by which HTTP exchange a call ended (`carried`), which response was probably meant
for a call (`probable`), and for which call a response was (`meant`).
"""

from typing import Any, Literal, TypeAlias

from mcpproxy.tui.data.conversation import NOTED

Sort: TypeAlias = Literal["cancelled", "cancels", "carried", "probable", "meant"]


class Notes:
    """The notes of one capture; of each sort, `NOTED` at most."""

    def __init__(self) -> None:
        self.left_out = 0
        """How many were above the limit."""
        self._known: dict[Sort, dict[int, tuple[object, ...]]] = {}
        self._new: list[dict[str, Any]] = []

    def add(self, sort: Sort, number: int, *told: object) -> None:
        """Add a note, unless it equals the last one there.

        Args:
            sort: the sort of note.
            number: the number of the call, or of the message's row.
            told: what is known, as a JSON value.
        """
        known = self._known.setdefault(sort, {})
        if known.get(number) == told:
            return
        if number not in known and len(known) >= NOTED:
            self.left_out += 1
            return
        known[number] = told
        self._new.append({"note": [sort, number, *told]})

    def has(self, sort: Sort, number: int) -> bool:
        """Whether there is a note."""
        return number in self._known.get(sort, ())

    def news(self) -> list[dict[str, Any]]:
        """The notes since the last time."""
        news, self._new = self._new, []
        return news
