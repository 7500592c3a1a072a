"""Compares how the calls of two sides ended.

Equal requests are compared with each other: that one of them fails now proves something. Only if a call (a tool, for
example) has no equal requests on both sides, or they fail only sometimes, its error rates are compared, with a test
that says nothing if the calls are few. Requests that fail for the same reason are one change.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from analysis.checking.baseline import fingerprint
from analysis.comparison.change import AspectResult, Change, Gap, Place
from analysis.comparison.fisher import fisher_exact, rejected_by_holm
from analysis.comparison.kind import Kind
from analysis.comparison.kinds.outcomes import (
    ERROR_CHANGED,
    ERROR_RATE_HIGHER,
    ERROR_RATE_LOWER,
    ERROR_TEXT_CHANGED,
    NOW_CANCELLED,
    NOW_FAILS,
    NOW_UNANSWERED,
    NOW_WORKS,
    SOMETIMES_FAILS,
)
from analysis.comparison.outcome_record import (
    WITHOUT_RESPONSE,
    CallRow,
    Ending,
    OutcomesRecord,
    RequestRow,
    is_failure,
)
from analysis.comparison.requests import subject_of
from analysis.comparison.sample import common_ceiling
from analysis.comparison.values.varying_text import normalised_text

ALPHA: Final = 0.05
"""The greatest probability that any error rate of a comparison is reported as changed although only chance is at
work."""

_CallKey = tuple[str, str, str]
"""Sender, method and name."""


class _CommonCalls(NamedTuple):
    """What the equal requests of one call say together."""

    has_change: bool = False
    """Whether some of them fail now and did not fail before, or the reverse."""
    old_rate: tuple[int, int] = (0, 0)
    """Of those that fail only sometimes: how many calls failed, of how many."""
    new_rate: tuple[int, int] = (0, 0)


def compare_outcomes(old: OutcomesRecord, new: OutcomesRecord) -> AspectResult:
    """Compare how the calls of two sides ended."""
    changes: dict[tuple[str, str, str, str], Change] = {}
    common_calls: dict[_CallKey, _CommonCalls] = {}
    ceiling = common_ceiling(old.requests_ceiling, new.requests_ceiling)
    for digest in sorted(old.requests.keys() & new.requests.keys()):
        if ceiling is not None and digest >= ceiling:
            break
        old_row, new_row = old.requests[digest], new.requests[digest]
        change = _request_change(old_row, new_row)
        if change is not None:
            key = change.kind.id, change.subject, str(change.before), _without_text(change.after)
            earlier = changes.get(key)
            changes[key] = change if earlier is None else earlier._replace(times=earlier.times + 1)
        _add_to_call(common_calls, old_row, new_row, change)
    rate_changes, gaps = _compare_rates(old, new, common_calls)
    if ceiling is not None:
        gaps.append(_gap("outcomes of some requests"))
    return AspectResult((*changes.values(), *rate_changes), tuple(gaps), (("outcomes", old.count, new.count),))


# ---- equal requests


def _request_change(old: RequestRow, new: RequestRow) -> Change | None:
    """Returns how the outcome of equal requests changed, or None if it did not, or nothing can be said."""
    if old.succeeded and not old.failed:
        return _change_from_success(old, new)
    if old.failed and not old.succeeded:
        if new.succeeded and not new.failed:
            label, ending = _usual(old.failures)
            return _change(
                NOW_WORKS, old, "the same request failed before and works now", (label, ending), _result_of(new)
            )
        if new.failed and not new.succeeded:
            return _change_of_error(old, new)
    return None


def _change_from_success(old: RequestRow, new: RequestRow) -> Change | None:
    result = _result_of(old)
    if not new.failed:
        cancelled = new.endings.get("cancelled")
        if new.succeeded or cancelled is None:
            return None
        text = "the same request got a result before and was cancelled now"
        return _change(NOW_CANCELLED, old, text, result, ("cancelled", cancelled))
    label, ending = _usual(new.failures)
    if new.succeeded:
        text = f"the same request always got a result before and now ends with {label} sometimes"
        return _change(SOMETIMES_FAILS, old, text, result, (label, ending))
    kind = NOW_UNANSWERED if label in WITHOUT_RESPONSE else NOW_FAILS
    text = "is now " + label if label in WITHOUT_RESPONSE else "now ends with " + label
    return _change(kind, old, f"the same request got a result before and {text}", result, (label, ending))


def _change_of_error(old: RequestRow, new: RequestRow) -> Change | None:
    old_failures, new_failures = old.failures, new.failures
    common_labels = old_failures.keys() & new_failures.keys()
    if not common_labels:
        before, after = _usual(old_failures), _usual(new_failures)
        text = f"the same request ended with {before[0]} before and ends with {after[0]} now"
        return _change(ERROR_CHANGED, old, text, before, after)
    for label in sorted(common_labels):
        old_ending, new_ending = old_failures[label], new_failures[label]
        if old_ending.texts and new_ending.texts and _words(old_ending).isdisjoint(_words(new_ending)):
            text = f"the same request ends with {label}, and another text than before"
            return _change(ERROR_TEXT_CHANGED, old, text, (label, old_ending), (label, new_ending))
    return None


def _change(kind: Kind, row: RequestRow, message: str, before: tuple[str, Ending], after: tuple[str, Ending]) -> Change:
    return Change(
        kind,
        subject_of(row.method, row.name),
        message,
        before=_with_text(*before),
        after=_with_text(*after),
        old=before[1].place,
        new=after[1].place,
    )


def _usual(failures: dict[str, Ending]) -> tuple[str, Ending]:
    """Returns the way in which a request failed most often."""
    return min(failures.items(), key=lambda item: (-item[1].count, item[0]))


def _result_of(row: RequestRow) -> tuple[str, Ending]:
    return "result", row.endings["result"]


def _with_text(label: str, ending: Ending) -> str:
    return f"{label}: {ending.texts[0]}" if ending.texts and ending.texts[0] else label


def _without_text(value: str) -> str:
    return value.partition(": ")[0]


def _words(ending: Ending) -> set[str]:
    """Returns the texts without what varies by itself, and without numbers, as baselines compare them."""
    return {fingerprint("", "", "", normalised_text(text, lambda _rule, _text: None)) for text in ending.texts}


# ---- error rates


def _add_to_call(
    common_calls: dict[_CallKey, _CommonCalls], old: RequestRow, new: RequestRow, change: Change | None
) -> None:
    key = old.sender, old.method, old.name
    common = common_calls.get(key, _CommonCalls())
    if change is not None and change.kind is not ERROR_TEXT_CHANGED:
        common = common._replace(has_change=True)
    elif (old.succeeded and old.failed) or (new.succeeded and new.failed):
        old_failed, new_failed = common.old_rate[0] + old.failed, common.new_rate[0] + new.failed
        common = common._replace(
            old_rate=(old_failed, common.old_rate[1] + old.failed + old.succeeded),
            new_rate=(new_failed, common.new_rate[1] + new.failed + new.succeeded),
        )
    common_calls[key] = common


def _compare_rates(
    old: OutcomesRecord, new: OutcomesRecord, common_calls: dict[_CallKey, _CommonCalls]
) -> tuple[list[Change], list[Gap]]:
    ceiling = common_ceiling(old.calls_ceiling, new.calls_ceiling)
    gaps = [] if ceiling is None else [_gap("error rates of some calls")]
    compared: list[tuple[CallRow, tuple[int, int], tuple[int, int]]] = []
    for digest in sorted(old.calls.keys() & new.calls.keys()):
        if ceiling is None or digest < ceiling:
            old_row, new_row = old.calls[digest], new.calls[digest]
            common = common_calls.get((old_row.sender, old_row.method, old_row.name))
            if common is None:
                compared.append((old_row, old_row.rate, new_row.rate))
            elif not common.has_change and common.old_rate[1]:
                compared.append((old_row, common.old_rate, common.new_rate))
    tested = [row for row in compared if row[1][1] and row[2][1] and (row[1][0] or row[2][0])]
    probabilities = [fisher_exact(*old_rate, *new_rate) for _, old_rate, new_rate in tested]
    rejected = rejected_by_holm(probabilities, ALPHA)
    return [
        _rate_change(*row, old, new) for row, is_rejected in zip(tested, rejected, strict=True) if is_rejected
    ], gaps


def _rate_change(
    row: CallRow, old_rate: tuple[int, int], new_rate: tuple[int, int], old: OutcomesRecord, new: OutcomesRecord
) -> Change:
    is_higher = new_rate[0] * old_rate[1] > old_rate[0] * new_rate[1]
    texts = [f"{failed:,} of {total:,} failed" for failed, total in (old_rate, new_rate)]
    message = f"calls fail {'more' if is_higher else 'less'} often than before, and chance does not explain it"
    kind = ERROR_RATE_HIGHER if is_higher else ERROR_RATE_LOWER
    places = [next(_places(side, row), None) for side in (old, new)]
    return Change(kind, subject_of(row.method, row.name), message, "", texts[0], texts[1], places[0], places[1])


def _places(record: OutcomesRecord, row: CallRow) -> Iterator[Place]:
    """Yields places that show a failure of a call."""
    for request in record.requests.values():
        if (request.sender, request.method, request.name) == (row.sender, row.method, row.name):
            yield from (ending.place for label, ending in request.endings.items() if is_failure(label))


def _gap(what: str) -> Gap:
    reason = "a side has too many different ones; those that were compared are a sample"
    return Gap(what, reason, is_failure=False, needed_by=frozenset({"outcome"}))
