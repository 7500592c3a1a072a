"""Changes between two captures in words, for every output: the verdict, the sides, values, places and gaps."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, get_args

from analysis.comparison.change import ABSENT, Change, Comparison, Gap, Ignored, Place, SideSummary, Witness
from analysis.comparison.kind import FailOn, Severity
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.json_text import compact_json
from mcpproxy.wording.latencies import latency_of
from mcpproxy.wording.names import revisions_text
from mcpproxy.wording.units import local_time

MAX_NAME_CHARS: Final = 200
"""The most characters of a peer's name, such as that of a tool."""
MAX_MESSAGE_CHARS: Final = 1_000
"""The most characters of the sentence about a change, or of a reason."""
_MAX_COMPARED_CHARS: Final = 16 << 10
"""The most characters of two values in which the first difference is searched."""
_CONTEXT_CHARS: Final = 16
"""How many characters are shown before the first difference of two values if their common beginning is cut."""
_MIN_QUOTED_CHARS: Final = 3
"""The fewest characters of a value that can be recognised in a sentence; shorter ones could be there by chance."""
_FAIL_ON_WORDS: Final[tuple[FailOn, ...]] = get_args(FailOn)
SEVERITIES: Final = tuple(sorted(Severity, reverse=True))
"""The severities, the worst first."""


def severity_counts(changes: Iterable[Change]) -> dict[Severity, int]:
    """Returns how many changes of each severity there are, the worst first; severities without changes are left out."""
    counts = Counter(change.severity for change in changes)
    return {severity: counts[severity] for severity in SEVERITIES if counts[severity]}


def failed_words(change: Change, fail_on: Iterable[FailOn] = _FAIL_ON_WORDS) -> list[FailOn]:
    """Returns the words of `--fail-on`, of those given, that a change fails."""
    return [word for word in _FAIL_ON_WORDS if word in fail_on and change.fails(frozenset({word}))]


def telling_words(change: Change, fail_on: Iterable[FailOn]) -> list[FailOn]:
    """Returns the words of `--fail-on`, of those given, that say why a change fails: `breaking`, not `may-break`."""
    words = failed_words(change, fail_on)
    return [word for word in words if word != "may-break" or "breaking" not in words]


def verdict_text(comparison: Comparison, fail_on: frozenset[FailOn] = frozenset()) -> str:
    """Returns the result in one line, sanitised; that of a comparison that failed never sounds like a clean one.

    `3 breaking, 1 worse, 12 notes`, `failed: 1 note that --fail-on value names`, `nothing changed in 14 tools, 120
    calls`, or `could not be compared: tools, because the new side does not list them`.

    Args:
        comparison: the comparison.
        fail_on: the words of `--fail-on`; empty if no change fails.
    """
    counts = counts_text(severity_counts(comparison.changes))
    accepted = f"; {count_text(comparison.accepted, 'accepted change')}" if comparison.accepted else ""
    failures = failures_of(comparison)
    caveats = "".join(f"; {sanitise(caveat, MAX_NAME_CHARS)}" for caveat in comparison.caveats)
    if failures:
        what, reason = sanitise(failures[0].what, MAX_NAME_CHARS), sanitise(failures[0].reason, MAX_MESSAGE_CHARS)
        if failures[0].what == "everything":
            return f"could not be compared: {reason}"
        more = f"; and {count_text(len(failures) - 1, 'other thing')}" if len(failures) > 1 else ""
        found = f"; elsewhere {counts}" if counts else ""
        return f"could not be compared: {what}, because {reason}{more}{found}{accepted}"
    if counts:
        return f"{_failing_text(comparison.changes, fail_on) or counts}{accepted}{caveats}"
    compared = compared_text(comparison)
    if not compared:
        return f"nothing to compare{caveats}"
    where = "what was recorded: " if comparison.caveats else ""
    return f"nothing {'else ' if accepted else ''}changed in {where}{compared}{accepted}{caveats}"


def _failing_text(changes: Sequence[Change], fail_on: frozenset[FailOn]) -> str:
    """Returns what fails, and the counts of all changes if there are others; empty if nothing fails."""
    failing = [change for change in changes if change.fails(fail_on)]
    if not failing:
        return ""
    found = {word for change in failing for word in telling_words(change, fail_on)}
    words = ",".join(word for word in _FAIL_ON_WORDS if word in found)
    rest = f"; in all {counts_text(severity_counts(changes))}" if len(failing) < len(changes) else ""
    return f"failed: {counts_text(severity_counts(failing))} that --fail-on {words} names{rest}"


def failures_of(comparison: Comparison) -> list[Gap]:
    """Returns what makes a comparison fail, so that it must not be read as a clean one; empty if it has not failed."""
    failures = [gap for gap in comparison.gaps if gap.is_failure]
    if not failures:
        failures += [
            Gap(f"all of the {name} side", "a part of it could not be examined", is_failure=True)
            for name, side in (("old", comparison.old), ("new", comparison.new))
            if side.has_failed
        ]
    return failures


def counts_text(counts: dict[Severity, int]) -> str:
    """Returns counts of severities: `3 breaking, 1 worse, 12 notes`; empty if there are none."""
    return ", ".join(
        count_text(count, "note") if severity is Severity.NOTE else f"{count:,} {severity}"
        for severity, count in counts.items()
    )


def compared_text(comparison: Comparison) -> str:
    """Returns what was compared: `12 → 13 tools, 120 calls`; empty if there was nothing."""
    return ", ".join(_compared_texts(comparison.compared))


def _compared_texts(compared: Iterable[tuple[str, int, int]]) -> Iterator[str]:
    for what, old_count, new_count in compared:
        noun = sanitise(what, MAX_NAME_CHARS)
        if old_count == new_count == 1:
            head, separator, rest = noun.partition(" of ")
            singular = f"{head[:-3]}y" if head.endswith("ies") else head.removesuffix("s")
            noun = singular + separator + rest
        if old_count != new_count:
            yield f"{old_count:,} → {new_count:,} {noun}"
        elif old_count:
            yield f"{old_count:,} {noun}"


def side_facts(side: SideSummary) -> list[str]:
    """Returns what is known of a side, apart from its name: server, client, revisions, size and time; sanitised."""
    is_expectation = not side.captures
    return [
        text
        for text in (
            sanitise(side.server or "", MAX_NAME_CHARS) or "unnamed server",
            f"client {sanitise(side.client, MAX_NAME_CHARS)}" if side.client else "",
            revisions_text(side.revisions),
            "expectation" if is_expectation else "",
            count_text(side.captures, "capture") if side.captures > 1 else "",
            count_text(side.sessions, "session") if side.sessions != 1 else "",
            count_text(side.frames, "frame"),
            time_text(side.begun_ns),
            f"filter {sanitise(side.only, MAX_NAME_CHARS)}" if side.only else "",
        )
        if text
    ]


def time_text(wall_ns: int | None) -> str:
    """Returns a time in the local time zone; empty if it is unknown or not a date."""
    try:
        return "" if wall_ns is None else local_time(wall_ns)
    except (ValueError, OverflowError, OSError):
        return ""


def message_text(change: Change) -> str:
    """Returns the sentence about a change, with its place and how often it was found; sanitised."""
    message = sanitise(change.message or change.kind.title, MAX_MESSAGE_CHARS)
    pointer = f", at {sanitise(change.pointer, MAX_NAME_CHARS)}" if change.pointer else ""
    return f"{message}{pointer}{f' ({change.times:,} times)' if change.times > 1 else ''}"


def subject_text(change: Change) -> str:
    """Returns what changed, sanitised: that of a finding is a rule, whose id looks like that of a kind."""
    prefix = "rule " if change.kind.id.startswith("finding/") else ""
    return prefix + sanitise(change.subject, MAX_NAME_CHARS)


def value_texts(change: Change, limit: int) -> tuple[str | None, str | None]:
    """Returns the values of both sides as JSON, sanitised; None if there is none.

    Latencies and the ends of calls are in words.

    Long values that begin alike are shown from shortly before their first difference on.

    Args:
        change: the change.
        limit: the most characters of each value, at least 40.
    """
    before, after = (_raw_text(change, value) for value in (change.before, change.after))
    start = 0
    if before is not None and after is not None and max(len(before), len(after)) > limit:
        pairs = enumerate(zip(before, after, strict=False))
        common = next((index for index, (old, new) in pairs if old != new), min(len(before), len(after)))
        start = common - _CONTEXT_CHARS if common > limit // 2 else 0
    return _cut_text(before, start, limit), _cut_text(after, start, limit)


def quotes_values(change: Change) -> bool:
    """Whether the sentence about a change contains its values, which are then not worth repeating."""
    values = [value for value in (change.before, change.after) if value is not ABSENT]
    if change.kind.id.startswith(("finding/", "sequence/")) and all(isinstance(value, int) for value in values):
        return True  # counts, which the sentence says in words
    return bool(values) and all(
        isinstance(value, str) and len(value) >= _MIN_QUOTED_CHARS and value in change.message for value in values
    )


def value_text(value: Any, limit: int) -> str:
    """Returns the beginning of a value as JSON, sanitised."""
    text, is_whole = compact_json(value, limit)
    # What is only ASCII is sanitised a hundred times as fast.
    return sanitise(text, limit) if is_whole else f"{sanitise(text.removesuffix('…'), limit - 1).removesuffix('…')}…"


def _raw_text(change: Change, value: Any) -> str | None:
    if value is ABSENT:
        return None
    if change.kind.id.startswith("outcome/") and isinstance(value, str):
        return " ".join(value[:_MAX_COMPARED_CHARS].split())  # words, in which an error may have line breaks
    latency = latency_of(value) if change.kind.id.startswith("latency/") else None
    return compact_json(value, _MAX_COMPARED_CHARS).text if latency is None else latency.text


def _cut_text(text: str | None, start: int, limit: int) -> str | None:
    if text is None:
        return None
    return f"…{sanitise(text[start:], limit - 1)}" if start else sanitise(text, limit)


def _witness_text(witness: Witness, limit: int) -> str:
    """Returns the value that proves a change, and what it proves; sanitised."""
    proof = "was valid before and is not now" if witness.fits_old else "is valid now and was not before"
    return f"{value_text(witness.value, limit)} {proof}"


def proof_text(change: Change, limit: int) -> str:
    """Returns the value that proves a change, or why there is none although it needs one; sanitised, empty if neither.

    Args:
        change: the change.
        limit: the most characters of the value.
    """
    if change.witness is not None:
        return _witness_text(change.witness, limit)
    return f"not proved: {sanitise(change.unproved, MAX_NAME_CHARS)}" if change.unproved else ""


def places_text(change: Change, comparison: Comparison) -> str:
    """Returns the frames that show both sides of a change, as `show --frame` takes them: `frame 4 → frame 12`."""
    texts = [place_text(place, side) for place, side in ((change.old, comparison.old), (change.new, comparison.new))]
    if change.old is None or not texts[0]:
        return f"new {texts[1]}" if texts[1] else ""
    return f"{texts[0]} → {texts[1]}" if texts[1] else f"old {texts[0]}"


def place_text(place: Place | None, side: SideSummary) -> str:
    """Returns the frame of a place, with its capture if the side has several; empty if no frame shows it."""
    if place is None or place.frame < 0 or not side.captures:  # an expectation has no records
        return ""
    return f"frame {place.frame}" + (f" of {sanitise(place.capture, MAX_NAME_CHARS)}" if side.captures > 1 else "")


def gap_text(gap: Gap) -> str:
    """Returns what was not compared, and why; sanitised."""
    return f"{sanitise(gap.what, MAX_NAME_CHARS)}: {sanitise(gap.reason, MAX_MESSAGE_CHARS)}"


def ignored_text(ignored: Ignored) -> str:
    """Returns which values a rule ignored: `/_meta/*: 12 values, 3 of them differ`."""
    verb = "differs" if ignored.differed == 1 else "differ"
    return (
        f"{sanitise(ignored.rule, MAX_NAME_CHARS)}: {count_text(ignored.values, 'value')}, "
        f"{ignored.differed:,} of them {verb}"
    )
