"""Builds the summary of a side: what its captures contain, and what they lack."""

from collections.abc import Iterator
from typing import Final

from analysis.comparison.change import SideSummary
from analysis.comparison.completeness import Completeness
from analysis.comparison.requests import bounded
from analysis.conversation.session import Peer
from analysis.reading import Reading
from captures.gaps import MAX_LOST_RECORDS
from captures.integrity import Inspection

MAX_PEERS: Final = 3
"""The most servers and clients that a summary names."""
MAX_WARNINGS: Final = 100
"""The most warnings of a side."""


class SummaryBuilder:
    """Collects the summary of a side from its captures."""

    def __init__(self, name: str, captures: int) -> None:
        """Begin a summary.

        Args:
            name: the side as the user named it.
            captures: how many captures it has.
        """
        self._name, self._captures = name, captures
        self._sessions = self._frames = 0
        self._servers: dict[str, None] = {}
        self._clients: dict[str, None] = {}
        self._revisions: dict[str, None] = {}
        self._begun_ns: int | None = None
        self._warnings: list[str] = []
        self._has_failed = False
        self._lost_records = self._unexamined = self._lost_bodies = 0
        self._server_end = ""

    def add(self, name: str, reading: Reading, frames: int, completeness: Completeness) -> None:
        """Add a capture that was read to its end.

        Args:
            name: its name.
            reading: its reading.
            frames: how many frames it has.
            completeness: what its records say of what it lacks.
        """
        capture, losses = reading.capture, reading.losses
        inspection = completeness.inspection()
        missing = 0 if inspection is None else inspection.missing
        lost_records = max(0, losses.records - completeness.torn_count - missing)
        self._lost_records = min(MAX_LOST_RECORDS, self._lost_records + lost_records)
        self._unexamined += losses.unjudged
        self._lost_bodies += losses.bodies
        self._server_end = completeness.server_end
        self._sessions += capture.sessions
        self._frames += frames
        _add_peer(self._servers, capture.server)
        _add_peer(self._clients, capture.client)
        self._revisions |= dict.fromkeys(map(bounded, capture.revisions))
        if self._begun_ns is None:
            self._begun_ns = capture.wall_ns
        is_damaged = reading.damage is not None or (inspection is not None and inspection.state == "damaged")
        self._has_failed = self._has_failed or is_damaged or bool(reading.faults)
        prefix = "" if self._captures == 1 else f"{name}: "
        self._warnings += [
            prefix + text for text in _warnings(reading, inspection, lost_records, completeness.torn_count)
        ]
        if not frames and self._captures > 1:
            self._warnings.append(f"{prefix}It has no message{_reason(completeness.server_end)}.")

    def summary(self) -> SideSummary:
        """Returns the summary of all captures so far."""
        omitted = len(self._warnings) - MAX_WARNINGS
        more = [f"There are {omitted:,} more warnings."] if omitted > 0 else []
        return SideSummary(
            self._name,
            self._captures,
            self._sessions,
            self._frames,
            _peers_text(self._servers),
            _peers_text(self._clients),
            tuple(sorted(self._revisions)),
            self._begun_ns,
            (*self._warnings[:MAX_WARNINGS], *more),
            self._has_failed,
            lost_records=self._lost_records,
            unexamined=self._unexamined,
            lost_bodies=self._lost_bodies,
            server_end=self._server_end,
        )


def _reason(server_end: str) -> str:
    return f" ({server_end})" if server_end else ""


def _add_peer(peers: dict[str, None], peer: Peer | None) -> None:
    if peer is not None and len(peers) <= MAX_PEERS:
        peers[bounded(peer.text)] = None


def _peers_text(peers: dict[str, None]) -> str | None:
    texts = [*peers]
    return ", ".join([*texts[:MAX_PEERS], *(["…"] if len(texts) > MAX_PEERS else [])]) or None


def _warnings(reading: Reading, inspection: Inspection | None, lost_records: int, torn_count: int) -> Iterator[str]:
    """Yields what the user must know of a capture, as sentences."""
    capture, losses = reading.capture, reading.losses
    if reading.is_growing and reading.end == "open":
        yield "It is still being recorded; calls that wait for their response were not compared."
    if capture.begins_at:
        yield f"It begins at record {capture.begins_at:,}: the ring has deleted the earlier ones."
    if reading.damage is not None:
        yield f"It is damaged at offset {reading.damage.offset:,} of a file; `mcpproxy verify` lists the damage."
    yield from _missing_records(reading, inspection, lost_records, torn_count)
    if losses.unjudged:
        yield f"Frames that were too large or too deep to examine were not compared ({losses.unjudged:,})."
    if losses.bodies:
        yield f"HTTP bodies that may contain messages are not in it ({losses.bodies:,})."
    if capture.guesses:
        yield f"Clients that cannot be told apart share sessions ({capture.guesses:,})."
    for rule, fault in reading.faults.items():
        yield f"The rule {rule} crashed; please report this bug: {fault}"
    for forgotten in reading.forgotten:
        yield f"{forgotten.text}."


def _missing_records(
    reading: Reading, inspection: Inspection | None, lost_records: int, torn_count: int
) -> Iterator[str]:
    """Yields which records of a capture are missing, as sentences."""
    if inspection is not None and (inspection.missing or inspection.repeated):
        count = f"{inspection.missing + inspection.repeated:,}"
        yield f"It is damaged: records are missing or out of order ({count}); `mcpproxy verify` lists them."
    if torn_count:
        yield "It ends inside a record: the recording was killed, or the file was cut, and the end is missing."
    elif reading.end == "killed":
        yield "The recording was killed: its end may be missing."
    if lost_records:
        count = f"{lost_records:,}" if lost_records < MAX_LOST_RECORDS else f"more than {MAX_LOST_RECORDS - 1:,}"
        yield f"Records are lost ({count}), and with them calls, responses or definitions."
