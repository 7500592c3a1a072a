"""The aspect latency: whether calls take longer than before, as far as the recordings can tell.

docs/decisions/comparison.md has the reasons for the statistics, and what they find in simulations and real servers.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from analysis.comparison.aspect import Aspect
from analysis.comparison.change import AspectResult, Change, Gap, LatencyRow
from analysis.comparison.kind import AspectName, FailOn, Kind
from analysis.comparison.kinds.latency import FASTER, SLOWER, SLOWER_WITHIN_LIMIT, TAIL_SLOWER
from analysis.comparison.latency.latency_decision import LEVEL, MEDIAN, TAIL, Decision, LatencyPair, Verdict, decide
from analysis.comparison.latency.latency_record import CallLatencies, LatencyKey, LatencyObserver, LatencyRecord
from analysis.comparison.latency.quantile_ratio import needed_count, ratio
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.comparison.requests import subject_of
from analysis.conversation.durations import quantile

_NEEDED_BY: Final[frozenset[FailOn]] = frozenset(("slower",))
_VERDICTS: Final[tuple[Verdict, ...]] = ("slower", "faster", "cannot tell", "same")
"""The order of rows."""
_NS_PER_MS: Final = 1_000_000
_SLOWDOWNS: Final = (
    (1.5, "at most one and a half times as long"),
    (2, "at most twice as long"),
    (4, "at most four times as long"),
    (8, "at most eight times as long"),
    (16, "at most sixteen times as long"),
    (32, "at most thirty-two times as long"),
)
"""Classes of slowdown, as factors and as words: a number would not be part of a fingerprint."""
_LARGER_SLOWDOWN: Final = "more than thirty-two times as long"


class LatencyAspect(Aspect):
    """How long calls took."""

    name: ClassVar[AspectName] = "latency"
    record: ClassVar[type] = LatencyRecord

    def observer(self, options: ObserveOptions) -> LatencyObserver:  # noqa: ARG002
        """Returns an observer of the latencies of a side."""
        return LatencyObserver()

    def compare(self, old: LatencyRecord, new: LatencyRecord, options: CompareOptions) -> AspectResult:
        """Compare the latencies of both sides."""
        compared = (("timed calls", _count(old), _count(new)),)
        sides = {calls.key: _Sides(calls, None) for calls in old.calls if calls.times_ns}
        for calls in new.calls:
            if calls.times_ns:
                sides[calls.key] = _Sides(sides.get(calls.key, _NEITHER).old, calls)
        pairs = {
            key: LatencyPair(both.old, both.new)
            for key, both in sides.items()
            if both.old is not None and both.new is not None
        }
        decision_count = decide(list(pairs.values()))
        rows = sorted(_rows(sides, pairs), key=lambda row: (_VERDICTS.index(row.verdict), row.name))
        changes = [change for pair in pairs.values() for change in _changes(pair, options.slower_percent)]
        gaps = [*_gaps_of_sides(old, new, bool(pairs)), *_gaps_of_pairs(pairs, decision_count)]
        return AspectResult(tuple(changes), tuple(gaps), compared, latencies=tuple(rows))


class _Sides(NamedTuple):
    old: CallLatencies | None
    new: CallLatencies | None


_NEITHER: Final = _Sides(None, None)


def _rows(sides: dict[LatencyKey, _Sides], pairs: dict[LatencyKey, LatencyPair]) -> Iterator[LatencyRow]:
    for key, (old, new) in sides.items():
        pair = pairs.get(key)
        has_later_calls = key.is_first and key._replace(is_first=False) in sides
        if has_later_calls and (pair is None or not pair.decisions):
            continue  # a few first calls only repeat the name
        yield LatencyRow(
            _label(key, has_later_calls),
            0 if old is None else old.count,
            0 if new is None else new.count,
            _quantile_ns(old, MEDIAN),
            _quantile_ns(new, MEDIAN),
            _quantile_ns(old, TAIL),
            _quantile_ns(new, TAIL),
            _interval(pair, MEDIAN),
            _interval(pair, TAIL),
            "cannot tell" if pair is None else pair.verdict,
        )


def _changes(pair: LatencyPair, percent: float | None) -> Iterator[Change]:
    """Yields the changes of a kind of call. Their messages contain no times, so that a baseline fits again."""
    median, tail = pair.decision(MEDIAN), pair.decision(TAIL)
    if median.is_slower:
        yield _change(pair, MEDIAN, _kind(SLOWER, (median, tail), percent), "the median latency is higher")
    elif tail.is_slower:
        yield _change(pair, TAIL, _kind(TAIL_SLOWER, (tail,), percent), "the 95th percentile of the latency is higher")
    if median.is_faster:
        yield _change(pair, MEDIAN, FASTER, "the median latency is lower")
    elif tail.is_faster:
        yield _change(pair, TAIL, FASTER, "the 95th percentile of the latency is lower")


def _kind(kind: Kind, decisions: Sequence[Decision], percent: float | None) -> Kind:
    return kind if any(decision.is_slower_by(percent) for decision in decisions) else SLOWER_WITHIN_LIMIT


def _change(pair: LatencyPair, part: float, kind: Kind, message: str) -> Change:
    name = "p50_ms" if part == MEDIAN else "p95_ms"
    before, after = (
        {name: round((_quantile_ns(calls, part) or 0) / _NS_PER_MS, 3), "calls": calls.count}
        for calls in (pair.old, pair.new)
    )
    subject = _label(pair.old.key, has_later_calls=pair.old.key.is_first)
    extents = () if kind is FASTER else _extents(before[name], after[name])
    places = pair.old.place, pair.new.place
    return Change(kind, subject, message, "", before, after, *places, extents=extents)


def _extents(before_ms: float, after_ms: float) -> tuple[str, ...]:
    """Returns the classes of slowdown that include this one, the smallest first."""
    words = [text for factor, text in _SLOWDOWNS if after_ms <= factor * before_ms]
    return (*words, _LARGER_SLOWDOWN)


def _gaps_of_sides(old: LatencyRecord, new: LatencyRecord, has_pairs: bool) -> Iterator[Gap]:
    if not has_pairs:
        yield Gap("latency", _reason(old, new), False, _NEEDED_BY)
    omitted = old.omitted_count + new.omitted_count
    if omitted:
        reason = f"{omitted:,} calls are of more kinds than the {len(old.calls):,} and {len(new.calls):,} that are kept"
        yield Gap("latency of calls of other kinds", reason, False)


def _reason(old: LatencyRecord, new: LatencyRecord) -> str:
    if old.calls and new.calls:
        return "no call on one side has the same method and name as one on the other"
    lacking = [(word, record) for word, record in (("old", old), ("new", new)) if not record.calls]
    sides = "neither side has a" if len(lacking) == 2 else f"the {lacking[0][0]} side has no"
    is_inexact = any(record.inexact_count for _, record in lacking)
    return f"{sides} response whose latency counts{': its times are not exact' if is_inexact else ''}"


def _gaps_of_pairs(pairs: Mapping[LatencyKey, LatencyPair], decision_count: int) -> Iterator[Gap]:
    """Yields what cannot be told. Calls that each session makes once count only if there is nothing else."""
    counted = [pair for key, pair in pairs.items() if not key.is_first] or list(pairs.values())
    unknown = [pair for pair in counted if pair.verdict == "cannot tell"]
    if not unknown:
        return
    level = LEVEL / max(1, decision_count)
    reason = (
        "too few calls for how much their times vary: to compare medians (p50) takes at least "
        f"{needed_count(MEDIAN, level)} calls on each side, and 95th percentiles (p95) {needed_count(TAIL, level)}; "
        "the first call of each session is not counted"
    )
    # Without a count: names of test cases should be the same in every run.
    what = "latency of some calls" if len(unknown) < len(counted) else "latency"
    yield Gap(f"latency of {_label(unknown[0].old.key)}" if len(counted) == 1 else what, reason, False)


def _interval(pair: LatencyPair | None, part: float) -> tuple[float, float] | None:
    interval = None if pair is None else pair.decision(part).interval
    return None if interval is None else ratio(interval)


def _quantile_ns(calls: CallLatencies | None, part: float) -> int | None:
    if calls is None:
        return None
    ordered = sorted(calls.times_ns)
    return quantile(len(ordered), ordered.__getitem__, part)


def _label(key: LatencyKey, has_later_calls: bool = False) -> str:
    """Returns the method and name, and what tells the calls apart from others with these. Untrusted text."""
    text = subject_of(key.method, key.name)
    marks = [
        *(["from the server"] if key.sender == "server" else []),
        *(["first of a session"] if has_later_calls else []),
    ]
    return f"{text} ({', '.join(marks)})" if marks else text


def _count(record: LatencyRecord) -> int:
    return sum(calls.count for calls in record.calls)
