"""Observes a side: reads each of its captures once, and passes calls, messages and findings to all observers."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from analysis.checking.baseline import fingerprint
from analysis.checking.checker import RuleSelection
from analysis.comparison.aspect import Observer
from analysis.comparison.aspects import ASPECTS
from analysis.comparison.completeness import Completeness
from analysis.comparison.options import ObserveOptions
from analysis.comparison.side import Side
from analysis.comparison.side_summary import SummaryBuilder
from analysis.filter import FINDING_KEYS, Filter, FilterError, facts_of, parse
from analysis.garbage import rare_collections
from analysis.reading import Reading, Step
from analysis.rules.finding import Finding
from analysis.selection import OUTCOME_KEYS, FindingSelection, filter_with_outcomes, matches
from captures.frame import Frame

PROGRESS_INTERVAL_FRAMES: Final = 4096
"""The number of frames of a capture between two reports of progress."""
_UNSUPPORTED_KEYS: Final = FINDING_KEYS | {"has:mark"}
_INDEX: Final = re.compile(r"/[0-9]+(?=/|$)")


def observe(
    name: str,
    captures: Sequence[tuple[str, Path]],
    options: ObserveOptions,
    on_progress: Callable[[int], None] | None = None,
) -> Side:
    """Observe a side.

    Args:
        name: the side as the user named it.
        captures: the name (for `Place.capture`) and path of each capture, oldest first.
        options: what to observe.
        on_progress: called with the number of frames of the current capture so far, a few times a second; None if it
            is of no interest.

    Raises:
        CaptureError: a capture cannot be read: the comparison has failed.
        FilterError: the filter is invalid.
    """
    only = parse_filter(options.only)
    aspects = [aspect for aspect in ASPECTS if options.with_findings or aspect.name != "findings"]
    observers = [aspect.observer(options) for aspect in aspects]
    summary = SummaryBuilder(name, len(captures))
    with rare_collections():
        for capture_name, path in captures:
            _observe_capture(capture_name, path, only, observers, options, summary, on_progress)
        records = {aspect.name: observer.observed() for aspect, observer in zip(aspects, observers, strict=True)}
    own_summary = summary.summary()._replace(only=options.only, ignored_pointers=options.ignored_pointers)
    return Side(own_summary, records)


def parse_filter(text: str) -> Filter | None:
    """Parse the filter of a comparison; return None if it is empty.

    Raises:
        FilterError: it is invalid, or has a key that a comparison does not know.
    """
    if not text:
        return None
    only = parse(text)
    for key, position in only.keys.items():
        if key in _UNSUPPORTED_KEYS:
            reason = f"`compare` does not know `{key}`: it selects messages and calls, not findings or marks"
            raise FilterError(reason, text, position)
    return only


def _observe_capture(
    name: str,
    path: Path,
    only: Filter | None,
    observers: Sequence[Observer],
    options: ObserveOptions,
    summary: SummaryBuilder,
    on_progress: Callable[[int], None] | None,
) -> None:
    hooks = _Hooks(observers, only)
    selection = None if only is None else FindingSelection(only)
    if not options.with_findings:
        reading, selection = Reading(path), None
    elif selection is None:
        reading = Reading(path, RuleSelection())
    else:
        reading = Reading(path, RuleSelection(on_message=selection.on_message, is_cause=selection.selects))
    if only is not None and hooks.has_message_hooks and not OUTCOME_KEYS.isdisjoint(only.keys):
        hooks.select_messages(filter_with_outcomes(only, Reading(path)))
    for observer in observers:
        observer.begin(name, reading)
    frames, completeness = 0, Completeness(path)
    for step in reading.to_end() if selection is None else _steps(reading, selection):
        completeness.on_record(step.record)
        if type(step.item) is Frame:
            frames += 1
            if on_progress is not None and not frames % PROGRESS_INTERVAL_FRAMES:
                on_progress(frames)
        hooks.on_step(step)
        for finding in step.findings:
            if selection is None or selection.selects(finding):
                hooks.on_finding(finding)
    for observer in observers:
        observer.end()
    summary.add(name, reading, frames, completeness)


def _steps(reading: Reading, selection: FindingSelection) -> Iterator[Step]:
    """Yields the steps of a reading; before each, the selection of findings knows how requests ended."""
    for step in reading:
        selection.note_outcomes(step.unanswered)
        yield step
    end = reading.end
    selection.note_outcomes(reading.fold.open_calls(), is_open=end == "open")
    for step in reading.finish(end):
        selection.note_outcomes(step.unanswered)
        yield step


class _Hooks:
    """The hooks that the observers of a side override, and what is passed to them."""

    def __init__(self, observers: Iterable[Observer], only: Filter | None) -> None:
        observers = tuple(observers)
        self._only, self._message_filter = only, only
        self._message_hooks = [each.on_message for each in observers if _overrides(each, "on_message")]
        self._call_hooks = [each.on_call for each in observers if _overrides(each, "on_call")]
        self._finding_hooks = [each.on_finding for each in observers if _overrides(each, "on_finding")]

    @property
    def has_message_hooks(self) -> bool:
        """Whether any observer sees messages."""
        return bool(self._message_hooks)

    def select_messages(self, only: Filter) -> None:
        """Select messages by another filter than calls."""
        self._message_filter = only

    def on_step(self, step: Step) -> None:
        """Pass on the messages of a step, and the calls that are over."""
        if self._message_hooks:
            message_filter = self._message_filter
            for context in step.messages:
                if message_filter is None or message_filter.matches(facts_of(context)):
                    for on_message in self._message_hooks:
                        on_message(context)
        for call in step.changed:
            if call.final_outcome is None and step.end is None and not call.is_over:
                continue
            if self._only is None or matches(self._only, call):
                for on_call in self._call_hooks:
                    on_call(call)

    def on_finding(self, finding: Finding) -> None:
        """Pass on a finding, with a fingerprint that does not depend on the order of lists."""
        pointer = _INDEX.sub("/N", finding.pointer)
        finding_fingerprint = fingerprint(finding.rule, finding.method, pointer, finding.message)
        for on_finding in self._finding_hooks:
            on_finding(finding, finding_fingerprint)


def _overrides(observer: Observer, hook: str) -> bool:
    return getattr(type(observer), hook) is not getattr(Observer, hook)
