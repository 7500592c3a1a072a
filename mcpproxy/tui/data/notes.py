"""Notes: rare facts about calls and messages, which have no column; the worker sends each as JSON.

There are five sorts, which `Conversation` stores: which message or HTTP exchange cancelled a call (`cancelled`), which
call a message cancels (`cancels`), by which HTTP exchange a call ended (`carried`), which response was probably meant
for a call (`probable`), and for which call a response was probably meant (`meant`).
"""

from typing import Any, Literal, TypeAlias

from mcpproxy.tui.data.conversation import MAX_NOTES_PER_SORT

NoteSort: TypeAlias = Literal["cancelled", "cancels", "carried", "probable", "meant", "lost"]


class Notes:
    """The notes of one capture, at most `MAX_NOTES_PER_SORT` of each sort."""

    def __init__(self) -> None:
        self.omitted_count = 0
        """How many notes above the limit were dropped."""
        self._notes: dict[NoteSort, dict[int, tuple[object, ...]]] = {}
        self._unsent: list[dict[str, Any]] = []

    def add(self, sort: NoteSort, number: int, *values: object) -> None:
        """Add a note, unless it equals the previous note of this sort on the same call or row.

        Args:
            sort: the sort of note.
            number: the number of the call, or of the message's row.
            *values: the JSON values of the note.
        """
        notes = self._notes.setdefault(sort, {})
        if notes.get(number) == values:
            return
        if number not in notes and len(notes) >= MAX_NOTES_PER_SORT:
            self.omitted_count += 1
            return
        notes[number] = values
        self._unsent.append({"note": [sort, number, *values]})

    def has(self, sort: NoteSort, number: int) -> bool:
        """Whether there is a note of this sort on a call or row."""
        return number in self._notes.get(sort, ())

    def take_news(self) -> list[dict[str, Any]]:
        """Returns the notes added since the last call."""
        news, self._unsent = self._unsent, []
        return news
