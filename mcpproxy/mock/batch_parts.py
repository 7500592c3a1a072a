"""The bytes of recorded items; of a batch, which may have very many messages, they are divided once for all of them."""

from typing import Final

from analysis.playback.items import Item
from analysis.playback.json_spans import spans_of
from analysis.playback.recently_used import RecentlyUsed
from analysis.playback.script import Script
from analysis.playback.translation import MessageTokens, tokens_of

MAX_KEPT_BYTES: Final = 32 << 20
"""How many bytes of divided batches are kept for each side."""


class BatchParts:
    """The bytes of items, and for the last batches of each side, what was found in them."""

    def __init__(self, script: Script) -> None:
        """Begin with nothing read."""
        self._script = script
        self._batches: dict[str, RecentlyUsed[_Batch]] = {
            side: RecentlyUsed(MAX_KEPT_BYTES) for side in ("client", "server")
        }
        """By sender; several, as clients may ask for the messages of several batches in turn."""

    def raw(self, item: Item) -> bytes:
        """Returns the bytes of an item."""
        return self._batch(item).raw if item.kind == "batch" else self._script.raw(item)

    def tokens(self, item: Item) -> tuple[MessageTokens, ...]:
        """Returns the ids and progress tokens of each message of an item."""
        return self._batch(item).tokens if item.kind == "batch" else tokens_of(self._script.raw(item))

    def member_of(self, item: Item, call: int) -> bytes:
        """Returns the message of an item that answers a call; of an item that is no batch, all."""
        return self._batch(item).member_of(call) if item.kind == "batch" else self._script.raw(item)

    def _batch(self, item: Item) -> "_Batch":
        batches = self._batches[item.sender]
        batch = batches.get(item.number)
        if batch is None:
            raw = self._script.raw(item)
            batch = batches.add(item.number, _Batch(item, raw), len(raw))
        return batch


class _Batch:
    """One batch."""

    def __init__(self, item: Item, raw: bytes) -> None:
        self.raw, self._item = raw, item
        self._tokens: tuple[MessageTokens, ...] | None = None
        self._members: dict[int, bytes] | None = None

    @property
    def tokens(self) -> tuple[MessageTokens, ...]:
        """The ids and progress tokens of each message."""
        if self._tokens is None:
            self._tokens = tokens_of(self.raw)
        return self._tokens

    def member_of(self, call: int) -> bytes:
        """Returns the message that answers a call; all of the batch if none does."""
        if self._members is None:
            spans = spans_of(self.raw)
            members = zip(self._item.members, spans, strict=False)
            self._members = {member.call: self.raw[span.start : span.end] for member, span in members}
        return self._members.get(call, self.raw)
