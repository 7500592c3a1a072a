"""Applies a filter to a whole capture: how a request ends is known only after its message has been read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from analysis.conversation.call import Call, MessageContext, context_of
from analysis.conversation.call_table import MAX_OPEN_REQUESTS
from analysis.conversation.message import Message, Request
from analysis.filter.facts import Facts, facts_of, facts_of_batch, facts_of_call
from analysis.filter.parser import Filter, parse
from analysis.reading import Reading, Step
from analysis.rules.finding import Finding
from captures.frame import Frame

_Key = tuple[int, int | None]
"""The number of a message's first frame, and its position in its batch; -1 for the batch as a whole."""
OUTCOME_KEYS: Final = frozenset({"has:answer", "has:error", "has:failure", "has:waiting"})
"""The keys of `Filter.keys` about the outcome of a request, which is known only after its message."""
_MAX_FACTS: Final = 10_000
_MAX_FACTS_BYTES: Final = 8 << 20


def filter_with_outcomes(only: Filter, reading: Reading) -> Filter:
    """Returns a filter that selects messages by the final outcome of each request.

    Args:
        only: the filter.
        reading: a reading of the capture that has not begun yet.
    """
    selection = _Selection(only)
    for step in reading.to_end():
        selection.on_step(step)
    selected_keys = selection.selected_keys
    return replace(only, matches=lambda facts: _key_of(facts) in selected_keys)


def calls(path: Path | str, only: str = "") -> Iterator[Call]:
    """Yields each call of a capture once: when it is over, or at the end of the capture.

    Args:
        path: the capture.
        only: a filter (docs/filter.md) that the request or the response must match; empty for all.

    Raises:
        CaptureError: the capture cannot be read.
        FilterError: the filter is invalid.
    """
    parsed_filter = parse(only) if only else None
    for step in Reading(path).to_end():
        for call in step.changed:
            if (call.is_over or step.end is not None) and (parsed_filter is None or matches(parsed_filter, call)):
                yield call


def matches(only: Filter, call: Call) -> bool:
    """Whether a filter selects the request or the response of a call, by what is known about the call now."""
    if call.session is None:
        return False
    if only.matches(facts_of_call(call)):
        return True
    return call.response is not None and only.matches(facts_of(context_of(call.response, call.session, call)))


def _key_of(facts: Facts) -> _Key | None:
    return None if facts.frames is None else (facts.frames[0], facts.index)


class _Selection:
    """The messages that a filter selects.

    Memory grows with their number; in addition, up to `MAX_OPEN_REQUESTS` requests without a response are kept.
    """

    def __init__(self, only: Filter) -> None:
        self._only = only
        self.selected_keys: set[_Key | None] = set()
        """The keys of all selected messages; complete after the last step."""
        self._open_requests: dict[_Key, MessageContext] = {}
        """The requests whose outcome may change."""

    def on_step(self, step: Step) -> None:
        """Process the next step."""
        for context in step.messages:
            self._process_message(context)
        item = step.item
        if isinstance(item, Frame) and item.verdict.kind == "batch":
            self._add_if_selected(facts_of_batch(item))
        if step.end is not None:
            for context in self._open_requests.values():
                self._add_if_selected(facts_of(context, _call_if_known(context.call), is_open=step.end == "open"))

    def _process_message(self, context: MessageContext) -> None:
        message = context.message
        if isinstance(message, Request):
            self._open_requests[message.seq, message.index] = context
            if len(self._open_requests) > MAX_OPEN_REQUESTS:
                # The fold has forgotten it as well, or soon will, so its outcome will not change.
                oldest = self._open_requests.pop(next(iter(self._open_requests)))
                self._add_if_selected(
                    facts_of(oldest, oldest.call if oldest.call is not None and oldest.call.final_outcome else None)
                )
            return
        self._add_if_selected(facts_of(context))
        if context.answered is not None:
            request_context = self._open_requests.pop(
                (context.answered.request.seq, context.answered.request.index), None
            )
            if request_context is not None:
                self._add_if_selected(facts_of(request_context, context.answered))

    def _add_if_selected(self, facts: Facts) -> None:
        if self._only.matches(facts):
            self.selected_keys.add(_key_of(facts))


def _call_if_known(call: Call | None) -> Call | None:
    """Returns a call if the capture can show how it ends, else None."""
    return None if call is None or call.is_forgotten or not call.request.id.is_answerable else call


class FindingSelection:
    """Selects findings by applying a filter to the last messages, of which it keeps a bounded number."""

    def __init__(self, only: Filter) -> None:
        self._only = only
        self._facts: OrderedDict[tuple[int, int | None], Facts] = OrderedDict()
        self._bytes = 0

    def on_message(self, context: MessageContext) -> None:
        """Process the next message."""
        self._keep_facts(context.message, facts_of(context))
        while len(self._facts) > 1 and (len(self._facts) > _MAX_FACTS or self._bytes > _MAX_FACTS_BYTES):
            _, oldest_facts = self._facts.popitem(last=False)
            self._bytes -= oldest_facts.size or 0

    def note_outcomes(self, calls: Iterable[Call], *, is_open: bool = False) -> None:
        """Record how requests without a response ended; with `is_open`, a response may still come."""
        for call in calls:
            if call.session is not None:
                self._keep_facts(call.request, facts_of_call(call, is_open=is_open))

    def selects(self, finding: Finding) -> bool:
        """Whether the filter selects a finding."""
        own_facts = Facts(session=finding.session, frames=(finding.frame, finding.frame))
        facts = self._facts.get((finding.frame, finding.item), own_facts)
        return self._only.matches(facts.add(rules=(finding.rule,), level=str(finding.level)))

    def _keep_facts(self, message: Message, facts: Facts) -> None:
        key, size = (message.seq, message.index), facts.size or 0
        previous_facts = self._facts.get(key)
        self._bytes += size - (0 if previous_facts is None else previous_facts.size or 0)
        self._facts[key] = self._only.compute_facts(facts)
