"""The bytes of recorded items; of a batch, which may have very many messages, they are divided once for all of them."""

from analysis.playback.items import Item
from analysis.playback.json_spans import spans_of
from analysis.playback.script import Script
from analysis.playback.translation import MessageTokens, tokens_of


class BatchParts:
    """The bytes of items, and for the last batch of each side, what was found in them."""

    def __init__(self, script: Script) -> None:
        """Begin with nothing read."""
        self._script = script
        self._batches: dict[str, _Batch] = {}
        """By sender."""

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
        batch = self._batches.get(item.sender)
        if batch is None or batch.number != item.number:
            batch = self._batches[item.sender] = _Batch(item, self._script.raw(item))
        return batch


class _Batch:
    """One batch."""

    def __init__(self, item: Item, raw: bytes) -> None:
        self.number, self.raw = item.number, raw
        self._item = item
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
