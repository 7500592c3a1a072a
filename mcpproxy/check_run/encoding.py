"""Events of an examination, with their steps, as messages from the processes that examine to the reporting process.

Decoding an encoded event returns an equal one, so a report does not depend on where a capture was examined.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from analysis.child_process import as_json, from_json
from analysis.conversation.bounded_dict import ForgottenEntries
from analysis.rules.finding import Finding, Level
from captures.damage import Damage
from captures.errors import CaptureError
from mcpproxy.check_run.result import CheckOutcome, CheckProgress, Event, LocatedFinding, RecordLocation


def encode_event(step: int, event: Event | CaptureError) -> bytes:
    """Returns an event, or the reason why a capture cannot be read, as a message."""
    return as_json((*_name_and_values(event), step))


def decode_event(message: bytes) -> tuple[int, Event | CaptureError]:
    """Returns the step and the event in a message from `encode_event`."""
    name, values, step = from_json(message)
    return step, _DECODERS[name](values)


def is_last(message: bytes) -> bool:
    """Whether a message contains the last event of its capture."""
    return message.startswith((b'["ended"', b'["unreadable"'))


def _name_and_values(event: Event | CaptureError) -> tuple[str, list[Any]]:
    if isinstance(event, LocatedFinding):
        return "finding", [
            list(event.finding),
            str(event.capture),
            event.wall_ns,
            None if event.place is None else _location_values(event.place),
            event.fingerprint,
            event.is_accepted,
            [(seq, _location_values(place)) for seq, place in event.proofs],
            list(event.forgotten),
        ]
    if isinstance(event, CheckOutcome):
        counts, followers = [*event.counts.items()], [*event.followers.items()]
        return "ended", [str(event.capture), counts, dict(event.faults), *event[3:-1], followers]
    if isinstance(event, Damage):
        return "damage", [str(event.path), *event[1:]]
    if isinstance(event, CheckProgress):
        return "reached", [event.frames]
    return "unreadable", [str(event)]


def _location_values(place: RecordLocation) -> list[Any]:
    return [str(place.path), *place[1:]]


def _finding_from(values: list[Any]) -> LocatedFinding:
    finding_values, capture, wall_ns, place, fingerprint, accepted, proofs, forgotten = values
    finding = Finding(*finding_values)
    return LocatedFinding(
        finding._replace(level=Level(finding.level), related=tuple(finding.related)),
        Path(capture),
        wall_ns,
        None if place is None else _location_from(place),
        fingerprint,
        accepted,
        tuple((seq, _location_from(proof)) for seq, proof in proofs),
        tuple(ForgottenEntries(*kind) for kind in forgotten),
    )


def _outcome_from(values: list[Any]) -> CheckOutcome:
    capture, counts, faults, *other_values, followers = values
    outcome = CheckOutcome(Path(capture), _counts_from(counts), faults, *other_values)._replace(
        followers=_counts_from(followers)
    )
    return outcome._replace(forgotten=tuple(ForgottenEntries(*kind) for kind in outcome.forgotten))


def _counts_from(pairs: list[Any]) -> dict[tuple[str, int, str], int]:
    return {(rule, session, other): count for (rule, session, other), count in pairs}


def _location_from(values: list[Any]) -> RecordLocation:
    return RecordLocation(Path(values[0]), *values[1:])


_DECODERS: Final[dict[str, Callable[[list[Any]], Event | CaptureError]]] = {
    "finding": _finding_from,
    "ended": _outcome_from,
    "damage": lambda values: Damage(Path(values[0]), *values[1:]),
    "reached": lambda values: CheckProgress(*values),
    "unreadable": lambda values: CaptureError(*values),
}
