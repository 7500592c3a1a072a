"""The opening of a capture: the records up to a completed handshake, after which nothing is open.

The fold understands them as ever. What comes then is understood without it, as long as nothing there needs more than
the few facts that are kept here.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from analysis.conversation.fold import Fold
from analysis.conversation.session import era_in_force
from analysis.conversation.stalls import waited_of
from analysis.reading import Reading
from analysis.store.plain.doubt import Doubt
from analysis.store.plain.exchanges import Exchanges
from analysis.store.values import LARGEST, integer
from captures.reader import Capture
from captures.record import Record
from captures.versions import FORMAT_VERSION

LONGEST: Final = 2_000
"""Records that are searched for the end of the handshake."""
MOST_STALLS: Final = 5_000
"""Stalls of client frames; the fold forgets some of twice as many."""


class Stalls:
    """The stalls of client frames, as the fold takes them; they must not overlap."""

    def __init__(self) -> None:
        """None yet."""
        self.rows: list[tuple[int, int, int, int]] = []
        """First and last frame, wait in nanoseconds, and number of the record."""

    def take(self, record: Record) -> None:
        """Take a `stall` record.

        Raises:
            Doubt: it overlaps with another, or there are too many.
        """
        members = record.members
        if members.get("dir") != "c2s":
            return
        first, waited, last = integer(members.get("of")), waited_of(members, record.t_ns), integer(members.get("to"))
        if any(integer(value) != value for value in (members.get("of"), members.get("to"), members.get("waited_ns"))):
            raise Doubt("a stall with an odd number")
        if first is None or waited is None or (self.rows and first <= self.rows[-1][0]):
            return
        if len(self.rows) >= MOST_STALLS or (self.rows and first <= self.rows[-1][1]):
            raise Doubt("stalls that overlap, or many")
        self.rows.append((first, first if last is None else last, waited, record.seq))


class Opening(NamedTuple):
    """Where the opening ends, and what holds from then on."""

    first: int
    """The number of the next record."""
    offset: int
    """Where that begins in the first segment, in bytes."""
    revision: str | None
    """The revision of the client's requests."""
    server_revision: str | None
    """That of the server's requests, and their era."""
    server_era: str | None
    stalls: Stalls
    exchanges: Exchanges | None
    """Over HTTP: what is known about its exchanges."""


def opening_of(capture: Capture) -> Opening:
    """The opening of a capture.

    Raises:
        Doubt: it has none, or is of a kind that only the fold understands.
    """
    if capture.header.members.get("format") != FORMAT_VERSION or capture.header.line == b"":
        raise Doubt("an older format, or no header")
    reading, stalls = Reading(), Stalls()
    fold = reading.fold
    for expected, record in enumerate(islice(_records(capture), LONGEST)):
        if record.seq != expected or record.skipped or record.t_ns > LARGEST or record.rec in ("part", "gap"):
            raise Doubt("a loss, or a giant frame, in the opening")
        if record.rec == "header" and expected:
            raise Doubt("no handshake in the first segment")
        if record.rec == "stall":
            stalls.take(record)
        reading.take(record)
        if record.rec == "frame" and _is_quiet(fold):
            (session,) = fold.routing.open()
            in_force = session.in_force
            return Opening(
                expected + 1,
                record.offset + len(record.line) + 1,
                session.handshake,
                in_force,
                era_in_force(session, in_force),
                stalls,
                Exchanges(fold, session) if session.is_http else None,
            )
    raise Doubt("no handshake at the beginning")


def _records(capture: Capture) -> Iterator[Record]:
    for item in capture:
        if not isinstance(item, Record):
            raise Doubt("damage")
        yield item


def _is_quiet(fold: Fold) -> bool:
    """Whether the handshake is complete and nothing else has begun."""
    sessions = fold.routing.open()
    if (
        fold.transport not in ("stdio", "http")
        or len(sessions) != 1
        or not fold.is_clear
        or not fold.is_between_messages
    ):
        return False
    session, links = sessions[0], fold.links
    return (
        session.state == "ready"
        and session.is_modern is False
        and session.eras == {"handshake"}
        and session.lost_seq < 0
        and not any(map(len, fold.tables.values()))
        and not (links.chains.count or links.tasks.count or links.subscriptions.listened or len(links.subscriptions))
    )
