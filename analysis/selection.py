"""Applies a filter to a whole capture, because how a request ends is known only after its message was read."""

from __future__ import annotations

from dataclasses import replace

from analysis.conversation.exchange import OPEN_LIMIT, Exchange
from analysis.conversation.message import Request
from analysis.conversation.session import Seen
from analysis.filter.facts import Facts, facts_of, facts_of_batch
from analysis.filter.parser import Filter
from analysis.reading import Reading, Step
from captures.frame import Frame
from captures.record import Record

_Key = tuple[int, int | None]
"""Number of the first frame of a message, and its place in a batch; -1 for the batch as a whole."""


def selected_at_the_end(only: Filter, reading: Reading) -> Filter:
    """Returns a filter that selects the same messages, but knows of each request how it ended.

    Args:
        only: the filter.
        reading: of the capture, from its beginning.
    """
    selection = _Selection(only, reading)
    for step in reading.to_end():
        selection.take(step)
    chosen = selection.chosen
    return replace(only, matches=lambda facts: _key_of(facts) in chosen)


def _key_of(facts: Facts) -> _Key | None:
    return None if facts.frames is None else (facts.frames[0], facts.index)


class _Selection:
    """What the filter selects; memory grows with that, and with the last `OPEN_LIMIT` requests without a response."""

    def __init__(self, only: Filter, reading: Reading) -> None:
        self._only = only
        self._reading = reading
        self.chosen: set[_Key | None] = set()
        """The keys of all selected messages; complete after the last step."""
        self._open: dict[_Key | None, tuple[Seen, Exchange | None]] = {}
        """The requests whose outcome may change, with their exchange as far as it is known."""

    def take(self, step: Step) -> None:
        """Process the next step."""
        for seen in step.messages:
            self._note(seen)
        item = step.item
        if isinstance(item, Frame) and item.verdict.kind == "batch":
            self._choose(facts_of_batch(item))
        if isinstance(item, Record) and item.rec == "exchange":
            for exchange in self._reading.fold.let_go:
                self._settle(exchange)
        if step.end is not None:
            for exchange in self._reading.fold.finish():
                self._settle(exchange)
            for seen, ended in self._open.values():
                self._choose(facts_of(seen, ended, is_open=step.end == "open"))

    def _note(self, seen: Seen) -> None:
        message = seen.message
        if isinstance(message, Request):
            self._open[message.seq, message.index] = seen, None
            if len(self._open) > OPEN_LIMIT:
                # The fold has forgotten it as well, or soon will: nothing more will be known of it.
                self._choose(facts_of(*self._open.pop(next(iter(self._open)))))
        else:
            self._choose(facts_of(seen))
        exchange = seen.exchange or seen.cancelled
        if exchange is not None:
            self._settle(exchange)
            if seen.exchange is not None and exchange.response is not None:
                asked = self._open.pop((exchange.request.seq, exchange.request.index), None)
                if asked is not None:
                    self._choose(facts_of(asked[0], exchange))

    def _settle(self, exchange: Exchange) -> None:
        key = exchange.request.seq, exchange.request.index
        if key in self._open:
            self._open[key] = self._open[key][0], exchange

    def _choose(self, facts: Facts) -> None:
        if self._only.matches(facts):
            self.chosen.add(_key_of(facts))
