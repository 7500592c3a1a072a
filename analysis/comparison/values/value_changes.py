"""Compares the results of equal requests on both sides.

The answers of a request are compared in order of occurrence. If they are the same set on both sides, however often each
came, nothing changed; if one side has more of them, only as many are compared as both have.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from analysis.comparison.canonical import canonical_json, digest_of_json, json_digest
from analysis.comparison.change import ABSENT, AspectResult, Change, Gap, Ignored
from analysis.comparison.kind import FailOn
from analysis.comparison.kinds import values as kinds
from analysis.comparison.outcomes import is_common_method
from analysis.comparison.requests import subject_of
from analysis.comparison.sample import common_ceiling
from analysis.comparison.values.ignored_places import IgnoredPlace, pass_over
from analysis.comparison.values.normaliser import PassedValue
from analysis.comparison.values.redacted_values import RULE as REDACTED
from analysis.comparison.values.redacted_values import is_same_but_redacted
from analysis.comparison.values.value_differences import Difference, differences, message_of
from analysis.comparison.values.value_record import Answer, RequestAnswers, ValuesRecord
from analysis.conversation.message import parse_exactly
from analysis.protocol.json_pointer import encode_step

MAX_DETAILED_PAIRS: Final = 2_000
"""The most different pairs of results of one call that are compared member by member."""
MAX_DETAILED_CHARS: Final = 64 << 20
"""The most characters of results that are compared member by member, of all calls together."""
MAX_DIFFERENCES: Final = 500_000
"""The most differences that are looked at."""
MAX_CHANGES: Final = 5_000
"""The most changes at different places; further ones count for the whole result."""
CHECKSUM_BYTES: Final = 4
"""The size of a checksum in `Answer.varied`."""
MAX_STEP_CHARS: Final = 100
MAX_POINTER_CHARS: Final = 1_000
MAX_EXAMPLE_BYTES: Final = 4_000
"""A larger value is not shown as an example of a change, but described."""
_SHOWN_DIGITS: Final = 8
"""The length of the digest that stands for new values in a baseline."""

TOO_LARGE: Final = "a result changed, which is too large to show where"
TOO_MANY: Final = "further results changed, which were not compared in detail"

_NEEDED_BY: Final[frozenset[FailOn]] = frozenset({"value"})
_IGNORED_RESULT: Final = (json_digest("ignored"), None)


class AnswerPair(NamedTuple):
    """Two different answers of equal requests."""

    row: RequestAnswers
    old: Answer
    new: Answer
    times: int
    """How often they differ in this way."""


class LoadedResult(NamedTuple):
    """A result without what the user ignores."""

    digest: str
    text: str | None
    """As canonical JSON; None if it was too large to keep."""
    passed: tuple[PassedValue, ...] = ()
    """What the user ignores in it, although it was not yet ignored when it was observed."""


class ComparedSide:
    """A side's record, with the user's places applied to its results when they are needed."""

    def __init__(self, record: ValuesRecord, places: Sequence[IgnoredPlace]) -> None:
        """Create a view of a record without what is at these places."""
        self.record = record
        self._places = places
        self._loaded: dict[tuple[int, str, str], LoadedResult] = {}

    @property
    def has_places(self) -> bool:
        """Whether the user ignores anything."""
        return bool(self._places)

    def result(self, row: RequestAnswers, index: int) -> LoadedResult:
        """Returns a result of a request."""
        stored = self.record.results[index]
        places = [place for place in self._places if place.is_of(row.method, row.name)] if self._places else []
        if not places:
            return LoadedResult(stored.digest, stored.text)
        key = index, row.method, row.name
        loaded = self._loaded.get(key)
        if loaded is None:
            if any(not place.steps for place in places):
                loaded = LoadedResult(*_IGNORED_RESULT)
            elif stored.text is None:
                loaded = LoadedResult(stored.digest, None)
            else:
                value, passed = pass_over(parsed(stored.text), places)
                json_text = canonical_json(value)
                loaded = LoadedResult(digest_of_json(json_text), json_text.decode(), tuple(passed))
            self._loaded[key] = loaded
        return loaded


def compare_values(old: ValuesRecord, new: ValuesRecord, places: Sequence[IgnoredPlace]) -> AspectResult:
    """Compare the results of two sides, without what is at the places that the user ignores."""
    sides = ComparedSide(old, places), ComparedSide(new, places)
    rows = common_rows(old, new)
    collector = _Collector(sides)
    for old_row, new_row in rows:
        collector.count_ignored(old_row, new_row)
        for pair in different_pairs(sides, old_row, new_row):
            collector.add(pair)
    changes = (*collector.changes(), *_repeated_cursors(old, new))
    telling_rows = [pair for pair in rows if not is_common_method(pair[0].method)]
    counts = [sum(answer.times for pair in telling_rows for answer in pair[side].answers) for side in (0, 1)]
    compared = (("results of equal requests", counts[0], counts[1]),) if telling_rows else ()
    return AspectResult(changes, tuple(_gaps(old, new, telling_rows)), compared, collector.ignored())


def common_rows(old: ValuesRecord, new: ValuesRecord) -> list[tuple[RequestAnswers, RequestAnswers]]:
    """Returns the answers of the requests that both sides have."""
    ceiling = common_ceiling(old.ceiling, new.ceiling)
    digests = [digest for digest in old.requests if digest in new.requests and (ceiling is None or digest < ceiling)]
    rows = [(old.requests[digest], new.requests[digest]) for digest in digests]
    return [(old_row, new_row) for old_row, new_row in rows if old_row.answers and new_row.answers]


def different_pairs(
    sides: tuple[ComparedSide, ComparedSide], old_row: RequestAnswers, new_row: RequestAnswers
) -> Iterator[AnswerPair]:
    """Yields the answers of a request that differ, in pairs."""
    old_runs, new_runs = _runs(sides[0], old_row), _runs(sides[1], new_row)
    if [digest for digest, *_ in old_runs] == [digest for digest, *_ in new_runs]:
        return  # the usual case
    old_counts, new_counts = _counts(old_runs), _counts(new_runs)
    if old_counts.keys() == new_counts.keys():
        return
    common = {digest: min(count, new_counts[digest]) for digest, count in old_counts.items()}
    old_rest, new_rest = _without(old_runs, common), _without(new_runs, common)
    for old_answer, new_answer, times in _paired(old_rest, new_rest):
        yield AnswerPair(old_row, old_answer, new_answer, times)


_Run = tuple[str, Answer, int]
"""The digest of a result, the first answer with it, and how often it came in a row."""


def _runs(side: ComparedSide, row: RequestAnswers) -> list[_Run]:
    return [(side.result(row, answer.result).digest, answer, answer.times) for answer in row.answers]


def _counts(runs: list[_Run]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for digest, _, times in runs:
        counts[digest] += times
    return counts


def _without(runs: list[_Run], common: dict[str, int]) -> list[tuple[Answer, int]]:
    """Returns the runs without the answers that have an equal one on the other side, the first ones of each."""
    left = dict(common)
    rest = []
    for digest, answer, times in runs:
        taken = min(left.get(digest, 0), times)
        if taken:
            left[digest] -= taken
        if times > taken:
            rest.append((answer, times - taken))
    return rest


def _paired(old: list[tuple[Answer, int]], new: list[tuple[Answer, int]]) -> Iterator[tuple[Answer, Answer, int]]:
    """Yields the answers at the same positions, and at how many in a row; what only one side has is left out."""
    old_index = new_index = 0
    old_left = new_left = 0
    while True:
        if not old_left:
            if old_index == len(old):
                return
            old_answer, old_left = old[old_index]
            old_index += 1
        if not new_left:
            if new_index == len(new):
                return
            new_answer, new_left = new[new_index]
            new_index += 1
        times = min(old_left, new_left)
        yield old_answer, new_answer, times
        old_left -= times
        new_left -= times


def parsed(text: str) -> Any:
    """Returns the value of canonical JSON."""
    try:
        return orjson.loads(text)
    except ValueError:  # lone surrogates, or numbers that orjson refuses
        return parse_exactly(text.encode())


def pointer_of(steps: Sequence[str], max_step_chars: int | None = None) -> str:
    """Returns the JSON Pointer of steps."""
    return "".join(f"/{encode_step(step, max_step_chars)}" for step in steps)


class _PlaceDifference(NamedTuple):
    """What differs at one place of two answers, perhaps in many elements of a list."""

    example: Difference
    """The first difference, without large values."""
    message: str
    new_values: set[str]
    """The digests of the values on the new side."""
    times: int = 1


class _Collector:
    """Collects the changes of all requests; those of the same kind at the same place of the same call are one."""

    def __init__(self, sides: tuple[ComparedSide, ComparedSide]) -> None:
        self._sides = sides
        self._changes: dict[tuple[str, str, str, str], Change] = {}
        self._new_values: dict[tuple[str, str, str, str], set[str]] = {}
        """The digests of the values on the new side, of each change."""
        self._known: dict[tuple[str, str, str], tuple[list[_PlaceDifference], int]] = {}
        """The differences of two results, and how many more there are only because one is redacted."""
        self._pairs: Counter[str] = Counter()
        self._chars = 0
        self._differences_left = MAX_DIFFERENCES
        self._ignored: dict[str, list[int]] = {}

    def add(self, pair: AnswerPair) -> None:
        """Add what is different in two answers."""
        subject = subject_of(pair.row.method, pair.row.name)
        found, redacted = self._differences(subject, pair)
        for difference in found:
            self._add_change(subject, pair, difference)
        if redacted:
            counts = self._ignored.setdefault(REDACTED, [0, 0])
            for index in (0, 1):  # all of them differ, on both sides
                counts[index] += 2 * redacted * pair.times

    def changes(self) -> tuple[Change, ...]:
        """Returns the changes."""
        return tuple(change._replace(extents=_extents(self._new_values[key])) for key, change in self._changes.items())

    def _differences(self, subject: str, pair: AnswerPair) -> tuple[list[_PlaceDifference], int]:
        """Returns the differences of two answers, or one that says why they cannot be shown.

        With them comes how many more there are only because an answer is redacted.
        """
        old, new = (
            side.result(pair.row, answer.result) for side, answer in zip(self._sides, (pair.old, pair.new), strict=True)
        )
        if old.text is None or new.text is None:
            return [_unshown(TOO_LARGE, new.digest)], 0
        key = subject, old.digest, new.digest
        known = self._known.get(key)
        if known is None:
            self._pairs[subject] += 1
            self._chars += len(old.text) + len(new.text)
            is_too_much = self._pairs[subject] > MAX_DETAILED_PAIRS or self._chars > MAX_DETAILED_CHARS
            if is_too_much or not self._differences_left:
                return [_unshown(TOO_MANY, new.digest)], 0
            redacted: list[None] = []
            found = self._unredacted(differences(parsed(old.text), parsed(new.text)), redacted)
            known = self._known[key] = self._by_place(found, new.digest), len(redacted)
        return known

    def _unredacted(self, found: Iterator[Difference], redacted: list[None]) -> Iterator[Difference]:
        """Yields the differences that redacting cannot explain; for the others, `redacted` gets an element."""
        for difference in found:
            if self._is_redaction(difference):
                redacted.append(None)
            else:
                yield difference

    def _is_redaction(self, difference: Difference) -> bool:
        """Whether two values can be equal, apart from secrets that a redacted copy lacks."""
        old, new = (side.record.is_redacted for side in self._sides)
        before, after = difference.before, difference.after
        if ABSENT in (before, after):
            return False
        return (old and is_same_but_redacted(before, after, is_other_redacted=new)) or (
            new and is_same_but_redacted(after, before, is_other_redacted=old)
        )

    def _by_place(self, found: Iterator[Difference], new_digest: str) -> list[_PlaceDifference]:
        by_place: dict[tuple[str, tuple[str, ...]], _PlaceDifference] = {}
        for difference in found:
            if not self._differences_left:
                return [*by_place.values(), _unshown(TOO_MANY, new_digest)]
            self._differences_left -= 1
            key = difference.kind.id, difference.steps
            known = by_place.get(key)
            if known is None:
                by_place[key] = _shown(difference)
            else:
                known.new_values.update(_digests(difference.after))
                by_place[key] = known._replace(times=known.times + 1)
        return list(by_place.values())

    def _add_change(self, subject: str, pair: AnswerPair, found: _PlaceDifference) -> None:
        difference, message, times = found.example, found.message, found.times * pair.times
        kind, pointer = difference.kind, pointer_of(difference.steps, MAX_STEP_CHARS)
        if len(self._changes) >= MAX_CHANGES or len(pointer) > MAX_POINTER_CHARS:
            pointer = ""
        key = kind.id, subject, pointer, message if not difference.steps else ""
        self._new_values.setdefault(key, set()).update(found.new_values)
        known = self._changes.get(key)
        if known is not None:
            self._changes[key] = known._replace(times=known.times + times)
            return
        old_place, new_place = self._sides[0].record.place(pair.old), self._sides[1].record.place(pair.new)
        self._changes[key] = Change(
            kind,
            subject,
            message,
            pointer,
            difference.before,
            difference.after,
            old_place,
            new_place,
            times=times,
        )

    # ---- what was ignored

    def count_ignored(self, old_row: RequestAnswers, new_row: RequestAnswers) -> None:
        """Count what was passed over in the answers of a request, on both sides."""
        rows = old_row, new_row
        if not any(self._has_passed(side, row) for side, row in zip(self._sides, rows, strict=True)):
            return
        for side, row in zip(self._sides, rows, strict=True):
            for answer in row.answers:
                for rule, values in self._passed(side, row, answer):
                    self._ignored.setdefault(rule, [0, 0])[0] += values * answer.times
        answers = [[(answer, answer.times) for answer in row.answers] for row in rows]
        for old_answer, new_answer, times in _paired(*answers):
            self._count_differing(rows, old_answer, new_answer, times)

    def ignored(self) -> tuple[Ignored, ...]:
        """Returns how much was passed over, most first."""
        counts = [Ignored(rule, values, differed) for rule, (values, differed) in self._ignored.items()]
        return tuple(sorted(counts, key=lambda count: (-count.values, count.rule)))

    def _has_passed(self, side: ComparedSide, row: RequestAnswers) -> bool:
        results = side.record.results
        return side.has_places or any(results[answer.result].passed for answer in row.answers)

    def _passed(self, side: ComparedSide, row: RequestAnswers, answer: Answer) -> Iterator[tuple[str, int]]:
        for rule, values in side.record.results[answer.result].passed:
            yield side.record.rules[rule], values
        for value in side.result(row, answer.result).passed:
            yield value.rule, 1

    def _count_differing(
        self, rows: tuple[RequestAnswers, RequestAnswers], old_answer: Answer, new_answer: Answer, times: int
    ) -> None:
        """Count the values that differ from the one at the same position, on both sides."""
        checksums = [
            self._checksums(side, row, answer)
            for side, row, answer in zip(self._sides, rows, (old_answer, new_answer), strict=True)
        ]
        for rule, old_values in checksums[0].items():
            new_values = checksums[1].get(rule, [])
            differing = sum(old != new for old, new in zip(old_values, new_values, strict=False))
            if differing:
                self._ignored[rule][1] += 2 * differing * times

    def _checksums(self, side: ComparedSide, row: RequestAnswers, answer: Answer) -> dict[str, list[Any]]:
        """Returns the checksums of what was passed over in an answer, by rule."""
        checksums: dict[str, list[Any]] = {}
        position = 0
        for rule, values in side.record.results[answer.result].passed:
            end = position + values * CHECKSUM_BYTES
            piece = answer.varied[position:end]
            position = end
            checksums[side.record.rules[rule]] = [
                piece[start : start + CHECKSUM_BYTES] for start in range(0, len(piece), CHECKSUM_BYTES)
            ]
        for value in side.result(row, answer.result).passed:
            checksums.setdefault(value.rule, []).append(value.checksum)
        return checksums


def _unshown(reason: str, new_digest: str) -> _PlaceDifference:
    """Returns what stands for differences whose places are not known."""
    return _PlaceDifference(Difference(kinds.VALUE_CHANGED, (), ABSENT, ABSENT), reason, {new_digest})


def _shown(difference: Difference) -> _PlaceDifference:
    """Returns a difference without large values, and its message."""
    shortened = difference._replace(before=_example(difference.before), after=_example(difference.after))
    return _PlaceDifference(shortened, message_of(difference), {*_digests(difference.after)})


def _digests(value: Any) -> tuple[str, ...]:
    """Returns the digest of a value, if there is one."""
    return () if value is ABSENT else (json_digest(value),)


def _extents(new_values: set[str]) -> tuple[str, ...]:
    """Returns a word for the values on the new side; its hyphen keeps it from being a number."""
    return (f"value-{json_digest(sorted(new_values))[:_SHOWN_DIGITS]}",) if new_values else ()


def _example(value: Any) -> Any:
    if value is ABSENT:
        return value
    size = len(canonical_json(value))
    if size <= MAX_EXAMPLE_BYTES:
        return value
    return f"{value[: MAX_EXAMPLE_BYTES // 4]}…" if isinstance(value, str) else f"({size:,} bytes of JSON)"


def _repeated_cursors(old: ValuesRecord, new: ValuesRecord) -> Iterator[Change]:
    for subject, repeated in new.repeated_cursors.items():
        if subject not in old.repeated_cursors:
            kind = kinds.CURSOR_REPEATS
            yield Change(kind, subject, kind.title, new=repeated.place, times=repeated.times)


def _gaps(old: ValuesRecord, new: ValuesRecord, rows: list[tuple[RequestAnswers, RequestAnswers]]) -> Iterator[Gap]:
    if not rows:
        reason = "no request got a result on both sides"
        yield Gap("values of results", reason, is_failure=False, needed_by=_NEEDED_BY)
    if common_ceiling(old.ceiling, new.ceiling) is not None or old.dropped or new.dropped:
        reason = "a side has too many; those that were compared are a sample"
        yield Gap("values of some results", reason, is_failure=False, needed_by=_NEEDED_BY)
    large = sum(result.text is None for record in (old, new) for result in record.results)
    if large:
        reason = "of one, only its digest was compared" if large == 1 else f"of {large:,}, only digests were compared"
        yield Gap("contents of large results", reason, False)
