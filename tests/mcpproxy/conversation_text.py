"""The text of a conversation whose items a test makes: complete frames, records, damage."""

from collections.abc import Iterator
from typing import Any

from analysis.reading import End, Item, Reading
from mcpproxy.report.conversation import Conversation, ConversationItem
from mcpproxy.wording.spans import Style
from tests.analysis.judged import step


class ConversationText(Conversation):
    """A conversation with its own reading."""

    def __init__(self, style: Style | None = None, width: int = 80, **more: Any) -> None:
        self.reading = Reading()
        super().__init__(self.reading.fold, style, width, **more)

    def said(self, item: Item) -> Iterator[str]:
        """Feed the next item; returns its lines."""
        return self.feed(step(self.reading, item))

    def things_of(self, item: Item) -> tuple[ConversationItem, ...]:
        """Feed the next item; returns the items that it shows."""
        return self.items_of(step(self.reading, item))

    def ended(self, *, still_open: bool = False) -> list[str]:
        """End the conversation; returns the lines about the end."""
        return [line for each in self.reading.finish(_end(still_open)) for line in self.feed(each)]

    def closing(self, *, still_open: bool = False) -> list[ConversationItem]:
        """End the conversation; returns the items that only the end shows."""
        return [thing for each in self.reading.finish(_end(still_open)) for thing in self.items_of(each)]


def _end(still_open: bool) -> End:
    return "open" if still_open else "killed"
