"""The misses of a mock, as the capture of its conversation shows them."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from analysis.comparison.values.ignored_places import place_line
from analysis.protocol.error_codes import UNSUPPORTED_VERSION
from analysis.protocol.methods import OPENING_METHODS
from mcpproxy.mock.miss import REASON
from mcpproxy.sanitise import sanitise
from mcpproxy.testing.calls import RecordedCall
from mcpproxy.wording.counts import count_text

_MAX_LISTED_MISSES: Final = 10
_MAX_SUBJECT_CHARS: Final = 200
_MAX_VALUE_CHARS: Final = 200
_MAX_POINTER_CHARS: Final = 60
"""Longer pointers may have been truncated, so nobody should copy them."""


class RequestsMissed(AssertionError):
    """A mock got requests that its capture does not have or, if it is strict, did not get all that it has."""

    answers: tuple[str, ...] = ()
    """What the mock said to its client instead, by which the client's own exception is recognised. Untrusted text."""


class Advice(NamedTuple):
    """What to do about a miss, in the words of whoever plays the capture."""

    renewal: str
    """A sentence: how the capture is recorded again."""
    call: str
    """What takes the argument `ignore`, up to its parenthesis."""

    def ignoring(self, places: Iterable[str]) -> str:
        """Returns what to write so that places are ignored; safe to print.

        Args:
            places: all of them, as for `mcpproxy mock --ignore`.
        """
        texts = [json.dumps(place) for place in dict.fromkeys(places)]
        value = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        return f"{self.call}ignore={value})"


OF_MOCK: Final = Advice("Record the capture again.", "mcp_mock(…, ")
OF_CASSETTE: Final = Advice(
    'Record it again with mcp_record(…, mode="all"), or with mode="new", which asks the server only what is missing.',
    "mcp_record(…, ",
)
OF_MARKER: Final = Advice(
    "Record it again with pytest --mcp-mode all, or with --mcp-mode new, which asks the server only what is missing.",
    "@pytest.mark.mcp(",
)


def missed_calls(calls: Iterable[RecordedCall]) -> list[RecordedCall]:
    """Returns the calls of one conversation that a mock answered with its own error: they were not recorded.

    Those that open a session are left out if anything else was answered: a client may try another revision first, and
    go on.
    """
    answered = [call for call in calls if call.call.response is not None]
    missed = [call for call in answered if _is_miss(call.error)]
    went_on = len(missed) < len(answered)
    return [call for call in missed if not (went_on and call.method in OPENING_METHODS)]


def _is_miss(error: Any) -> bool:
    data = error.get("data") if isinstance(error, dict) else None
    return isinstance(data, dict) and (data.get("mcpproxy") == REASON or _refused_revision(error) is not None)


def _refused_revision(error: dict[str, Any]) -> tuple[str, str] | None:
    """Returns the revisions that a capture has, and the one that the client asked for, if the mock refused that."""
    supported, requested = error["data"].get("supported"), error["data"].get("requested")
    is_refused = error.get("code") == UNSUPPORTED_VERSION and str(error.get("message")).startswith("mcpproxy mock: ")
    if not is_refused or not isinstance(supported, list):
        return None
    return sanitise(", ".join(map(str, supported)), 100), sanitise(str(requested), 40)


class _Place(NamedTuple):
    """A place at which a request differs from the nearest recorded one. Untrusted text."""

    pointer: str
    recorded: str
    """The value as JSON; "nothing" if it is absent."""
    present: str
    is_pseudonym: bool
    """Whether the recorded value stands for another one, so that it can never match."""


def misses_text(
    calls: list[RecordedCall], recording: str, advice: Advice, *, ignored: Iterable[str] = (), is_redacted: bool = False
) -> str:
    """Returns the text about missed calls: what differs from the nearest request, and what to do. Safe to print.

    Args:
        calls: the calls, as from `missed_calls`.
        recording: the name of the capture that the mock plays.
        advice: what to do about it.
        ignored: the places that are ignored already.
        is_redacted: whether values in the capture were replaced with pseudonyms.
    """
    lines = [f"{count_text(len(calls), 'request is', 'requests are')} not in {sanitise(recording, 200)}"]
    ignorable: list[str] = []
    can_be_recorded = False
    for call in calls:
        places = list(_places(call, is_redacted))
        if len(lines) <= _MAX_LISTED_MISSES:
            lines.append("\n".join(_miss_lines(call, places)))
        ignorable += (ignored_place(call, place.pointer) for place in places if _can_be_copied(place.pointer))
        can_be_recorded = can_be_recorded or not any(place.is_pseudonym for place in places)
    if len(calls) > _MAX_LISTED_MISSES:
        lines.append(f"  … {len(calls) - _MAX_LISTED_MISSES:,} more")
    if can_be_recorded:
        lines.append(advice.renewal)
    if ignorable:
        lines.append(f"If these values do not matter, ignore them: {advice.ignoring([*ignored, *ignorable])}")
    return "\n".join(lines)


def ignored_place(call: RecordedCall, pointer: str) -> str:
    """Returns the line that ignores a place in the params of a request: the pointer alone if it can stand alone."""
    is_plain = pointer.isascii() and pointer.isprintable() and not {*pointer} & {*" \"'\\#"}
    return pointer if is_plain else place_line(call.method, call.name or "", pointer)


def _can_be_copied(pointer: str) -> bool:
    return 0 < len(pointer) <= _MAX_POINTER_CHARS


def _miss_lines(call: RecordedCall, places: list[_Place]) -> Iterator[str]:
    nearest = call.error["data"].get("nearest")
    subject = _subject(call.method, call.name)
    if refused := _refused_revision(call.error):
        yield f"  {subject}: the capture is of revision {refused[0]}, not {refused[1]}"
        return
    if not isinstance(nearest, dict):
        yield f"  {subject}: no request of this method was recorded"
        return
    session = f"session {nearest['session']}, " if type(nearest.get("session")) is int else ""
    frame = f"{session}frame {sanitise(str(nearest.get('frame')), 20)}"
    nearest_subject = _subject(str(nearest.get("method")), str(nearest.get("name") or ""))
    if nearest_subject != subject:
        yield f"  {subject}: the nearest recorded request is {frame}, {nearest_subject}"
    elif not places:
        yield f"  {subject}: it was recorded in {frame}, but not {'in this session' if session else 'at this point'}"
    else:
        yield f"  {subject} differs from the nearest recorded request, {frame}, at"
    for place in places:
        pointer = sanitise(place.pointer, 100) or "the params"
        recorded, present = (sanitise(text, _MAX_VALUE_CHARS) for text in (place.recorded, place.present))
        pseudonym = "; the recorded value is a pseudonym, so no value matches it" if place.is_pseudonym else ""
        yield f"    {pointer}: recorded {recorded}, now {present}{pseudonym}"


def _subject(method: str, name: str | None) -> str:
    return sanitise(" ".join(filter(None, (method, name))), _MAX_SUBJECT_CHARS)


def _places(call: RecordedCall, is_redacted: bool) -> Iterator[_Place]:
    nearest = call.error["data"].get("nearest")
    differences = nearest.get("differences") if isinstance(nearest, dict) else None
    for difference in differences if isinstance(differences, list) else ():
        if isinstance(difference, dict):
            pointer, recorded, present = (
                str(difference.get(member, "nothing")) for member in ("pointer", "recorded", "present")
            )
            yield _Place(pointer, recorded, present, is_redacted and _has_pseudonym(recorded))


def _has_pseudonym(text: str) -> bool:
    # Loading the rules for secrets takes half a second, which only a miss should wait for.
    from mcpproxy.sharing.pseudonyms import PSEUDONYM

    return PSEUDONYM.search(text) is not None
