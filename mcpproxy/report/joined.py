"""What was lost or changed between two captures of one conversation, as text in the style of findings, or as JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from analysis.rules.finding import Level
from analysis.store.joined import Difference, HopTimes, JoinTotals
from mcpproxy.report.output import json_line
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Role, Span, Style
from mcpproxy.wording.units import ms_text, nanoseconds, offset_text
from mcpproxy.wording.wrapping import wrapped

MAX_SHOWN: Final = 20
"""The maximum number of differences of one kind that are shown; the others are counted."""
_MAX_TEXT_CHARS: Final = 200
_ROLES: Final[dict[Level, Role]] = {Level.ERROR: "bad", Level.WARNING: "accent", Level.NOTE: "plain"}
_ADDED: Final = ("request_added", "notification_added")
_NOUNS: Final = {
    "request_lost": "request lost",
    "response_lost": "response lost",
    "notification_lost": "notification lost",
    "answered_between": "request answered in between",
    "request_changed": "request changed",
    "response_changed": "response changed",
    "notification_changed": "notification changed",
    "request_added": "request added",
    "notification_added": "notification added",
}
_NOUN_CELLS: Final = max(map(len, _NOUNS.values()))
_PLURALS: Final = {
    what: " ".join((f"{first}s", *rest))
    for what, (first, *rest) in ((what, noun.split()) for what, noun in _NOUNS.items())
}


def level_of(difference: Difference) -> Level:
    """Returns how bad a difference is: an uncertain one is a warning, and an added message is a note."""
    if difference.what in _ADDED:
        return Level.NOTE
    return Level.ERROR if difference.is_certain else Level.WARNING


def sentence(difference: Difference) -> str:
    """Returns what happened, in one unsanitised line."""
    asker, receiver = difference.sender, "server" if difference.sender == "client" else "client"
    what = _message_text(difference)
    match difference.what:
        case "request_lost" | "notification_lost":
            text = f"the {asker} sent {what}, but the {receiver}'s side never saw it"
        case "response_lost":
            outcome = difference.server_outcome if receiver == "server" else difference.client_outcome
            text = f"the {receiver} answered {what} ({outcome}), but the {asker}'s side never got the response"
        case "answered_between":
            outcomes = f"got {_sender_outcome(difference)}, {_receiver_outcome(difference)}"
            text = f"{what} was answered in between: the {asker}'s side {outcomes}"
        case "request_added" | "notification_added":
            text = (
                f"the {receiver}'s side saw {what}, which the {asker}'s side did not send: another client or something "
                "in between did"
            )
        case _:
            changed = "the response to" if difference.what == "response_changed" else "the params of"
            text = f"{changed} {what} changed on the way"
    if difference.pointer:
        text += f", at {difference.pointer}"
    return text if difference.is_certain else f"{text}; not certain: {_doubt(difference)}"


def _message_text(difference: Difference) -> str:
    words = [
        difference.method,
        *([difference.name] if difference.name else []),
        *([f"#{difference.id}"] if difference.id else []),
    ]
    return " ".join(word[:_MAX_TEXT_CHARS] for word in words)


def _sender_outcome(difference: Difference) -> str:
    """Returns what the sender of a request got in place of the response of its receiver."""
    is_client = difference.sender == "client"
    outcome = difference.client_outcome if is_client else difference.server_outcome
    said = f" “{difference.error[:_MAX_TEXT_CHARS]}”" if difference.error else ""
    if outcome == "error":
        return f"error {difference.code}{said}"
    if is_client and difference.client_status is not None and difference.client_status >= 400:
        return f"HTTP {difference.client_status}{said}"
    return f"{outcome}{said}"


def _receiver_outcome(difference: Difference) -> str:
    """Returns what the receiver of a request did with it."""
    is_server = difference.sender == "client"
    receiver = "server" if is_server else "client"
    frame = difference.server_frame if is_server else difference.client_frame
    outcome = difference.server_outcome if is_server else difference.client_outcome
    if frame is None:
        return f"but the {receiver}'s side never saw the request"
    return f"but the {receiver}'s outcome is {outcome}"


def _doubt(difference: Difference) -> str:
    if difference.client_frame is not None and difference.server_frame is not None:
        return "it may be another message"
    return "one side has more equal messages, or a capture has losses"


def difference_row(difference: Difference, names: Mapping[str, str], joined: JoinTotals) -> dict[str, Any]:
    """Returns the members of one difference. Untrusted text is unchanged."""
    members = difference._asdict()
    sides = {
        f"{side}_capture": names[capture]
        for side, capture in (("client", joined.client_capture), ("server", joined.server_capture))
    }
    return {**sides, "level": str(level_of(difference)), **members, "message": sentence(difference)}


class JoinText:
    """Writes differences as text for people."""

    def __init__(self, style: Style, *, notes: bool, width: int) -> None:
        """Start without differences.

        Args:
            style: colours or none.
            notes: whether notes are shown, too; they are always counted.
            width: the width of a line, in cells.
        """
        self._style, self._shows_notes, self._width = style, notes, max(40, width)
        self._counts: Counter[str] = Counter()
        self._hidden: Counter[str] = Counter()

    def begin(self, client_name: str, server_name: str) -> Iterator[str]:
        """Yields which capture is on which side."""
        for side, name in (("client", client_name), ("server", server_name)):
            yield self._style.paint([Span(f"{side}'s side  ", "dim"), Span(sanitise(name, None), "accent")]) + "\n"
        yield "\n"

    def report(self, difference: Difference) -> Iterator[str]:
        """Yields a difference, or counts it."""
        what, level = difference.what, level_of(difference)
        self._counts[what] += 1
        if level is Level.NOTE and not self._shows_notes:
            return
        if self._counts[what] > MAX_SHOWN:
            self._hidden[what] += 1
            return
        frames = ", ".join(
            f"{side} {'has none' if frame is None else f'frame {frame}'}"
            for side, frame in (("client's side", difference.client_frame), ("server's side", difference.server_frame))
        )
        head = [Span(f"  {level!s:<7}  ", _ROLES[level]), Span(f"{_NOUNS[what]:<{_NOUN_CELLS}}")]
        place = f"  {frames}  {offset_text(max(0, nanoseconds(difference.at_ms)))}"
        yield self._style.paint([*head, Span(place, "dim")]) + "\n"
        for line in wrapped(sanitise(sentence(difference), None), self._width - 4):
            yield f"    {line}\n"
        yield "\n"

    def finish(self, joined: JoinTotals) -> Iterator[str]:
        """Yields what was only counted, and the totals."""
        for what, count in self._hidden.items():
            yield f"  and {count:,} more: {_count_of(what, count)}\n"
        if self._hidden:
            yield "\n"
        for text in self._totals(joined):
            yield from (f"{line}\n" for line in wrapped(text, self._width))

    def _totals(self, joined: JoinTotals) -> Iterable[str]:
        found = ", ".join(_count_of(what, count) for what, count in self._counts.items()) or "nothing lost or changed"
        yield (
            f"{found[0].upper()}{found[1:]}. In both captures: {joined.common_requests:,} of "
            f"{count_text(joined.requests, 'request')}, {joined.common_notifications:,} of "
            f"{count_text(joined.notifications, 'notification')}."
        )
        facts = [
            (joined.uncertain, "not certain"),
            (joined.uncovered, "not judged, because one capture was not recording then"),
            (joined.changed_ids, "with a changed id"),
            (joined.changed_order, "in a changed order"),
        ]
        if known := [f"{count:,} {text}" for count, text in facts if count]:
            yield f"Of these: {', '.join(known)}."
        ways = [("requests", joined.request_way), ("responses", joined.response_way)]
        if times := [f"{noun} {_way_text(way)}" for noun, way in ways if way.median_ms is not None]:
            yield f"On the way: {'; '.join(times)}."
        if joined.clock_ms is not None:
            error = f" (±{_ms(joined.clock_error_ms)})" if joined.clock_error_ms is not None else ""
            direction = "ahead of" if joined.clock_ms >= 0 else "behind"
            yield f"Clock of the server's side: {_ms(abs(joined.clock_ms))} {direction} the client's{error}."


def _count_of(what: str, count: int) -> str:
    return f"{count:,} {_NOUNS[what] if count == 1 else _PLURALS[what]}"


def _way_text(way: HopTimes) -> str:
    return f"{_ms(way.median_ms or 0)} (median), at most {_ms(way.max_ms or 0)}"


def _ms(value_ms: float) -> str:
    return ms_text(nanoseconds(value_ms))


def json_text(difference: Difference, names: Mapping[str, str], joined: JoinTotals) -> str:
    """Returns the line of JSON for a difference."""
    return json_line(difference_row(difference, names, joined))
