"""EndingObserver: notes how a recording ends, and words what of it cannot be played."""

from collections.abc import Iterator
from typing import Final

from analysis.playback.items import Ending
from analysis.playback.pseudonyms import has_pseudonym
from analysis.reading import Reading, Step
from captures.damage import Damage
from captures.frame import Frame
from captures.record import Record

_MAX_NAME_CHARS: Final = 20


class EndingObserver:
    """Notes how a recording ends, from the steps of its reading."""

    def __init__(self, reading: Reading) -> None:
        """Create an observer that has seen no steps."""
        self._reading = reading
        self._status: int | None = None
        self._signal: str | None = None
        self._server_left = False
        """Whether the server has closed its output, or its process has ended."""
        self._process_ended = False
        self._was_asked = False
        """Whether the client closed its end, or a signal was sent, before the server left."""
        self._damage_count = 0
        self._torn_count = 0
        self._abridged_count = self._cut_count = 0
        self._failure = ""
        self._has_pseudonym = False

    def on_step(self, step: Step) -> None:
        """Note what a step says. It is needed for the steps without a frame only."""
        item = step.item
        if isinstance(item, Damage):
            self._torn_count += item.cause == "torn"
            self._damage_count += item.cause != "torn"
        elif isinstance(item, Record):
            self._on_record(item)

    @property
    def is_redacted_copy(self) -> bool:
        """Whether values may have been replaced, which has not been seen so far."""
        return self._reading.fold.is_redacted and not self._has_pseudonym

    def on_frame_of_copy(self, frame: Frame) -> None:
        """Note whether a frame of a redacted copy has values that were replaced."""
        self._has_pseudonym = has_pseudonym(frame.raw)

    def note_failure(self) -> None:
        """Note that the rest of the capture could not be read."""
        self._failure = "the rest of it could not be read"

    def note_parts(self, abridged_count: int, cut_count: int) -> None:
        """Note how many messages an imported log holds only in part, and of how many frames bytes are lost."""
        self._abridged_count, self._cut_count = abridged_count, cut_count

    def _on_record(self, record: Record) -> None:
        rec, members = record.rec, record.members
        event = members.get("event")
        if rec == "eof":
            # A reader that is gone has left before the other side's stream ended.
            is_of_server = (members.get("dir") == "s2c") != (members.get("by") == "receiver")
            self._server_left = self._server_left or (is_of_server and not self._was_asked)
            self._was_asked = self._was_asked or not (is_of_server or self._server_left)
        elif rec == "signal":
            self._was_asked = self._was_asked or not self._server_left
        elif (rec == "process" and event in ("ended", "failed")) or rec == "close":
            if rec == "close" and members.get("ending") != "server":
                self._was_asked = self._was_asked or members.get("ending") in ("client", "signal")
                return
            self._server_left = self._process_ended = True
            status, signal = members.get("status"), members.get("signal")
            self._status = status if type(status) is int else self._status
            self._signal = signal[:_MAX_NAME_CHARS] if isinstance(signal, str) and signal.isascii() else self._signal

    def ending(self) -> Ending:
        """Returns how the recording ended; call it when everything has been read."""
        reading = self._reading
        fold = reading.fold
        is_growing = reading.end == "open"
        is_whole = fold.observed_start and fold.is_complete and not (is_growing or self._abridged_count)
        return Ending(
            by_server=fold.transport == "stdio" and self._process_ended and not (self._was_asked or is_growing),
            status=self._status,
            signal=self._signal,
            t_ns=fold.t_ns,
            is_whole=is_whole and not self._failure,
            begins_late=bool(fold.first_seq) or (not fold.observed_start and fold.transport is not None),
            is_growing=is_growing,
            caveats=tuple(self._caveats()),
            is_lossy=self._is_lossy(),
        )

    def _is_lossy(self) -> bool:
        fold = self._reading.fold
        lost_count = fold.lost_count + fold.unrecorded_count + self._abridged_count + self._cut_count
        return bool(lost_count or fold.first_seq or self._failure) or not fold.observed_start

    def _end_caveats(self) -> Iterator[str]:
        if self._torn_count:
            yield "its last record is incomplete"
        elif self._reading.end == "killed" and not self._failure:
            yield "its recorder was killed, so its end may be missing"

    def _caveats(self) -> Iterator[str]:
        fold = self._reading.fold
        lost_count = fold.lost_count - self._damage_count - self._torn_count
        if fold.first_seq:
            yield f"it begins at record {fold.first_seq}, because earlier ones were deleted"
        elif not fold.observed_start and fold.transport is not None:
            yield "its beginning may be missing"
        if lost_count > 0:
            yield f"{_count(lost_count, 'record')} lost"
        if self._damage_count:
            yield f"damaged in {_count(self._damage_count, 'place')}"
        yield from self._end_caveats()
        if fold.unrecorded_count:
            yield f"{_count(fold.unrecorded_count, 'HTTP body', 'HTTP bodies')} not recorded"
        if fold.unjudged_count:
            yield f"{_count(fold.unjudged_count, 'frame')} too large, too deep or too incomplete to examine"
        if self._abridged_count:
            yield f"the log held only a part of {_count(self._abridged_count, 'message')}"
        for forgotten in self._reading.forgotten:
            yield f"{forgotten.times:,} {forgotten.what} forgotten, because there were too many at once"
        if self._has_pseudonym:
            yield "pseudonyms stand for values that were redacted"
        if self._failure:
            yield self._failure


def _count(count: int, word: str, plural: str = "") -> str:
    return f"{count:,} {word if count == 1 else plural or word + 's'}"
