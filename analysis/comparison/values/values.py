"""The aspect `values`: what the results of equal requests contain, apart from what varies by itself."""

from collections.abc import Iterable
from struct import pack
from typing import Any, Final, NamedTuple

from msgspec import Struct

from analysis.comparison.aspect import Aspect, Observer
from analysis.comparison.canonical import canonical_json, digest_of_json
from analysis.comparison.change import AspectResult, Place
from analysis.comparison.definitions.definition_lists import LISTS
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.comparison.outcomes import label_of
from analysis.comparison.requests import RequestKey, request_key
from analysis.comparison.sample import Sample
from analysis.comparison.values.ignored_places import parse_place, pass_over
from analysis.comparison.values.mirrored_text import fold
from analysis.comparison.values.normaliser import PassedValue, normalise
from analysis.comparison.values.value_changes import compare_values
from analysis.comparison.values.value_record import Answer, RepeatedCursor, RequestAnswers, StoredResult, ValuesRecord
from analysis.comparison.values.varying_members import rule_of_member
from analysis.conversation.call import Call
from analysis.conversation.message import Response
from analysis.reading import Reading
from analysis.rules.unchanged_content import digest_of

MAX_REQUESTS: Final = 20_000
"""The most different requests of a side that are compared."""
MAX_ANSWERS: Final = 200_000
"""The most results of a side that are kept; equal ones in a row count as one."""
MAX_KEPT_BYTES: Final = 64 << 20
"""The most bytes of normalised results that are kept of a side; of later ones, only a digest is."""
MAX_RESULT_BYTES: Final = 1 << 20
"""Of a larger result, only a digest is kept."""
MAX_CHECKSUM_BYTES: Final = 16 << 20
"""The most bytes of checksums of values that were passed over."""
MAX_CHECKSUMS: Final = 250
"""The most such values of one result whose differences are counted."""
MAX_CURSOR_SUBJECTS: Final = 10_000
_MAX_CACHED: Final = 20_000

_NOT_COMPARED: Final = frozenset({"ping"})
"""Methods that have no results."""
_COMPARED_ELSEWHERE: Final = {
    **{row.method: frozenset({row.member, "nextCursor"}) for row in LISTS},
    "initialize": frozenset({"protocolVersion", "capabilities", "serverInfo", "instructions"}),
    "server/discover": frozenset({"capabilities", "instructions"}),
}
"""By method, the members of its result that other aspects compare; and the cursor, as pages may end anywhere."""


class _Seen(NamedTuple):
    """What is known of a result as it was written."""

    result: int
    varied: bytes
    cursors: tuple[str, ...]


class _Loose(Struct, gc=False):
    """An answer with the position of its request, by which answers are sorted at the end of a capture."""

    position: int
    answer: Answer


class ValuesObserver(Observer):
    """Normalises the results of a side, and keeps each once."""

    aspect = "values"

    def __init__(self, ignored_pointers: Iterable[str]) -> None:
        """Create an observer that also passes over these places."""
        self._places = [parse_place(line) for line in ignored_pointers]
        self._requests: Sample[RequestAnswers] = Sample(MAX_REQUESTS)
        self._loose: dict[str, list[_Loose]] = {}
        self._captures: list[str] = []
        self._rules: dict[str, int] = {}
        self._results: list[StoredResult] = []
        self._indexes: dict[tuple[str, tuple[tuple[int, int], ...]], int] = {}
        self._seen: dict[tuple[bytes, str, str], _Seen] = {}
        self._repeated_cursors: dict[str, RepeatedCursor] = {}
        self._kept_bytes = 0
        self._checksum_bytes = 0
        self._answers = 0
        self._dropped = 0
        self._reading: Reading | None = None
        self._is_redacted = False

    def begin(self, capture: str, reading: Reading) -> None:
        """Begin a capture."""
        self._captures.append(capture)
        self._reading = reading

    def on_call(self, call: Call) -> None:
        """Note the result of a call."""
        response = call.response
        if response is None or label_of(call, is_open=False) != "result":
            return
        if call.request.method in _NOT_COMPARED:
            return
        if call.request.method in _COMPARED_ELSEWHERE:
            self._note_page(call, response)
        if self._answers >= MAX_ANSWERS:
            self._dropped += 1
            return
        key = request_key(call)
        if self._requests.entry(key.digest, lambda: RequestAnswers(key.method, key.name)) is None:
            return
        seen = self._seen_result(response, key)
        if seen.cursors:
            self._note_cursors(call, response, seen.cursors)
        session = 0 if call.session is None else call.session.number
        answer = Answer(seen.result, 1, len(self._captures) - 1, session, response.seq, seen.varied)
        self._loose.setdefault(key.digest, []).append(_Loose(call.request.seq, answer))
        self._answers += 1

    def end(self) -> None:
        """Put the answers of the capture into the order of their requests."""
        for digest, loose in self._loose.items():
            row = self._requests.entry(digest, _no_row)
            if row is not None:
                loose.sort(key=lambda each: each.position)
                for each in loose:
                    self._append(row.answers, each.answer)
        self._loose.clear()
        self._is_redacted |= self._reading is not None and self._reading.fold.is_redacted

    def observed(self) -> ValuesRecord:
        """Returns the results that were observed."""
        requests = self._requests.kept()
        used = sorted({answer.result for row in requests.values() for answer in row.answers})
        numbers = {old_number: number for number, old_number in enumerate(used)}
        for row in requests.values():
            for answer in row.answers:
                answer.result = numbers[answer.result]
        return ValuesRecord(
            self._captures,
            list(self._rules),
            [self._results[number] for number in used],
            requests,
            self._requests.ceiling,
            self._repeated_cursors,
            self._dropped,
            self._is_redacted,
        )

    # ---- results

    def _seen_result(self, response: Response, key: RequestKey) -> _Seen:
        raw_digest = digest_of(response)
        if raw_digest is None:
            return self._normalised(response, key)
        # Only places of some calls, and members that others compare, make a difference between calls.
        name = key.name if self._places else ""
        cache_key = raw_digest, key.method if self._places or key.method in _COMPARED_ELSEWHERE else "", name
        seen = self._seen.get(cache_key)
        if seen is None:
            if len(self._seen) >= _MAX_CACHED:
                self._seen.clear()
            seen = self._seen[cache_key] = self._normalised(response, key)
        return seen

    def _normalised(self, response: Response, key: RequestKey) -> _Seen:
        value, passed, cursors = normalise(_own_members(response.result, key.method))
        value = fold(value)
        places = [place for place in self._places if place.is_of(key.method, key.name)]
        if places:
            value, more = pass_over(value, places)
            passed += more
        counts, varied = self._counted(passed)
        return _Seen(self._store(value, counts), varied, cursors)

    def _counted(self, passed: list[PassedValue]) -> tuple[tuple[tuple[int, int], ...], bytes]:
        """Returns how many values each rule passed over, and their checksums, in the order of the rules."""
        if not passed:
            return (), b""
        by_rule: dict[int, list[int]] = {}
        for rule, value_checksum in passed:
            by_rule.setdefault(self._rules.setdefault(rule, len(self._rules)), []).append(value_checksum)
        rules = sorted(by_rule)
        checksums = [each for rule in rules for each in by_rule[rule]][:MAX_CHECKSUMS]
        varied = pack(f">{len(checksums)}I", *checksums)
        if self._checksum_bytes + len(varied) > MAX_CHECKSUM_BYTES:
            varied = b""
        self._checksum_bytes += len(varied)
        return tuple((rule, len(by_rule[rule])) for rule in rules), varied

    def _store(self, value: Any, counts: tuple[tuple[int, int], ...]) -> int:
        json_text = canonical_json(value)
        digest = digest_of_json(json_text)
        index = self._indexes.get((digest, counts))
        if index is None:
            index = self._indexes[digest, counts] = len(self._results)
            size = len(json_text)
            is_kept = size <= MAX_RESULT_BYTES and self._kept_bytes + size <= MAX_KEPT_BYTES
            self._kept_bytes += size if is_kept else 0
            self._results.append(StoredResult(digest, json_text.decode() if is_kept else None, counts))
        return index

    def _append(self, answers: list[Answer], answer: Answer) -> None:
        last = answers[-1] if answers else None
        if last is not None and last.result == answer.result and last.varied == answer.varied:
            last.times += 1
            self._answers -= 1
        else:
            answers.append(answer)

    # ---- cursors

    def _note_page(self, call: Call, response: Response) -> None:
        """Note a page of a list; its items are compared elsewhere."""
        result = response.result
        cursor = result.get("nextCursor") if isinstance(result, dict) else None
        if isinstance(cursor, str) and cursor:
            self._note_cursors(call, response, (cursor,))

    def _note_cursors(self, call: Call, response: Response, cursors: tuple[str, ...]) -> None:
        params = call.request.params
        arguments = params.get("arguments") if isinstance(params, dict) else None
        for values in (params, arguments):
            for name, value in values.items() if isinstance(values, dict) else ():
                if isinstance(value, str) and value in cursors and rule_of_member(name) == "cursor":
                    self._note_repeated_cursor(call, response)
                    return

    def _note_repeated_cursor(self, call: Call, response: Response) -> None:
        subject = request_key(call).subject
        known = self._repeated_cursors.get(subject)
        if known is not None:
            known.times += 1
        elif len(self._repeated_cursors) < MAX_CURSOR_SUBJECTS:
            session = 0 if call.session is None else call.session.number
            self._repeated_cursors[subject] = RepeatedCursor(Place(self._captures[-1], session, response.seq))


def _own_members(result: Any, method: str) -> Any:
    """Returns a result without the members that other aspects compare."""
    elsewhere = _COMPARED_ELSEWHERE.get(method)
    if elsewhere is None or not isinstance(result, dict):
        return result
    return {name: value for name, value in result.items() if name not in elsewhere}


class ValuesAspect(Aspect):
    """The aspect `values`."""

    name = "values"
    record = ValuesRecord

    def observer(self, options: ObserveOptions) -> Observer:
        """Returns an observer for one side.

        Raises:
            IgnoreError: an ignored pointer is none.
        """
        return ValuesObserver(options.ignored_pointers)

    def compare(self, old: ValuesRecord, new: ValuesRecord, options: CompareOptions) -> AspectResult:
        """Compare the results of equal requests.

        Raises:
            IgnoreError: an ignored pointer is none.
        """
        return compare_values(old, new, [parse_place(line) for line in options.ignored_pointers])


def _no_row() -> RequestAnswers:
    """Returns an empty row; the sample has dropped the request, or is asked for one that it has."""
    return RequestAnswers("", "")
