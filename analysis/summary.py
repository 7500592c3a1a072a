"""Summary: the facts about a capture that lists show, computed once from the fold and kept in the user's cache.

A summary is derived from the capture alone, so a cache file may be lost, damaged or out of date at any time: it is
checked when read, and rebuilt if it does not match. Its name identifies the capture; its content lists everything that
it depends on: the capture's files with size and time, and the modules that read and interpret them. It is written
to a temporary file and renamed. Captures that are being recorded are never cached.
"""

import json
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from analysis import clock
from analysis.cached import READING_MODULES, derived_directory, derived_file, read_bytes, state_of, write_atomically
from analysis.conversation.call import Outcome
from analysis.conversation.histogram import Histogram
from analysis.conversation.login import UNSUCCESSFUL
from analysis.conversation.session import Peer
from analysis.reading import AbandonedCount, Item, Reading
from captures.file import is_live
from captures.frame import Frame
from captures.listing import segments
from captures.record import Record
from captures.tail import STEP, Tail

State: TypeAlias = Literal["live", "ended", "died"]
"""`live`: being recorded; `ended`: closed normally; `died`: not closed, or its server failed (`bad_ending`)."""

MAX_CLIENTS: Final = 16
"""The most clients of one capture that are kept: those that sent a message last."""
MAX_REVISIONS: Final = 8
"""The most revisions of one capture that are kept: those of its first sessions."""
BUCKET_COUNT: Final = 64
"""The number of equal intervals in which traffic is counted."""
MAX_CACHE_FILES: Final = 5000
"""The most files in the cache; the oldest are removed first. Each takes less than a kilobyte."""
MAX_CACHE_FILE_BYTES: Final = 16 << 10
"""The most bytes of a cache file; a larger one was not written by mcpproxy."""

_MIN_BUCKET_NS: Final = 1 << 20
_SUFFIX: Final = ".json"
_MAX_TEXT_CHARS: Final = 200
"""The most characters of a name that are kept."""


class Summary(NamedTuple):
    """A summary of one capture. Texts are untrusted, and not safe on a screen."""

    name: str | None = None
    """The server's name in the capture."""
    transport: str | None = None
    state: State = "live"
    wall_ns: int | None = None
    """When it began."""
    duration_ns: int = 0
    """The stamp of its last record."""
    client: str | None = None
    """The name and version that the client gives."""
    server: str | None = None
    """The same for the server."""
    revisions: tuple[str, ...] = ()
    """The first `MAX_REVISIONS` revisions of its sessions, in their order."""
    frames: int = 0
    errors: int = 0
    """Requests that count as errors; see `Call.is_error`."""
    challenged: int = 0
    """How many of these were refused to ask for a login."""
    failed_logins: int = 0
    """How many logins did not succeed; none that is under way while it is being recorded."""
    abandoned: int = 0
    """Requests whose sender gave up on them; see `Call.abandoned_ns`."""
    answered_late: int = 0
    """How many of these were answered anyway."""
    unanswered: int = 0
    """Once it has ended: how many other requests have no response."""
    waiting: int = 0
    """While it is being recorded: how many of the client's requests wait for a response."""
    waiting_since_ns: int | None = None
    """While it is being recorded: the stamp of the client's oldest unanswered request."""
    answered: int = 0
    """Requests whose latency counts; see `Call.is_timely`."""
    p95_ns: int | None = None
    """The latency that 95 of 100 of these did not exceed, to within 2 %; None if there are none."""
    lost: int = 0
    """Records known to be lost, and stretches of damage."""
    ending: str | None = None
    """How it ended, if it ended badly: `exit 1`, `SIGKILL`, `killed` (not closed), `not run` (no such command)."""
    bucket_ns: int = _MIN_BUCKET_NS
    """The length of a bucket."""
    traffic: tuple[int, ...] = ()
    """Frames by bucket, up to the last one with any."""
    clients: tuple[tuple[str, int], ...] = ()
    """The clients that took part, by the name and version that they give, with the stamp of the last message of each.

    Sessions whose client is not known count under an empty name.
    """

    @property
    def failures(self) -> int:
        """Errors, with a login that did not succeed in place of the requests that were refused to ask for it."""
        return max(0, self.errors - self.challenged) + self.failed_logins

    @property
    def waited_ns(self) -> int | None:
        """How long the client's oldest unanswered request has waited by now, by the wall clock, or None."""
        if self.waiting_since_ns is None or self.wall_ns is None:
            return None
        return max(0, clock.age_ns(self.wall_ns) - self.waiting_since_ns)


class Summarizer:
    """Summarises one capture, item by item; the summary is available at any time."""

    def __init__(self) -> None:
        self._reading = Reading()
        self.fold = self._reading.fold
        self.frames = self.errors = 0
        self._abandoned = AbandonedCount()
        self.latencies = Histogram()
        self._bucket_ns, self._traffic = _MIN_BUCKET_NS, [0] * BUCKET_COUNT
        self._clients: dict[Peer | None, int] = {}
        self._status: int | None = None
        self._signal: str | None = None

    def feed(self, item: Item) -> None:
        """Process the next item of the capture."""
        step = self._reading.feed(item)
        completed_item = step.item
        if isinstance(completed_item, Frame):
            self.frames += 1
            self._count_frame(completed_item.t_ns)
        elif isinstance(completed_item, Record) and completed_item.rec in ("process", "close"):
            status, signal = completed_item.members.get("status"), completed_item.members.get("signal")
            self._status = status if type(status) is int else self._status
            self._signal = signal if isinstance(signal, str) else self._signal
        for context in step.messages:
            self._note_client(context.session.client, self.fold.t_ns)
        self._abandoned.on_step(step)
        for call in step.changed:
            self.errors += call.final_outcome is not None and call.is_error
            if call.is_timely:
                self.latencies.add(call.latency_ns or 0)

    def summary(self, *, live: bool) -> Summary:
        """The summary so far.

        Args:
            live: whether it is being recorded.
        """
        fold = self.fold
        ending = None if live else bad_ending(fold.ending, self._status, self._signal)
        unanswered_calls = () if live else fold.open_calls()
        # Only the end shows which streams were never resumed after they had ended or the client had closed them.
        open_calls = unanswered_calls if fold.transport == "http" else ()
        waits = self.fold.tables["client"].waiting_calls() if live else []
        sent_ns = [wait.request.t_ns for wait in waits if wait.is_awaited]
        bucket_count = next((n for n in range(BUCKET_COUNT, 0, -1) if self._traffic[n - 1]), 0)
        return Summary(
            name=_short_text(fold.name),
            transport=_short_text(fold.transport),
            state="live" if live else "died" if ending else "ended",
            wall_ns=fold.wall_ns,
            duration_ns=fold.t_ns,
            client=_short_text(fold.client and fold.client.text),
            server=_short_text(fold.server and fold.server.text),
            revisions=tuple(revision[:_MAX_TEXT_CHARS] for revision in fold.revisions[:MAX_REVISIONS]),
            frames=self.frames,
            errors=self.errors + sum(call.is_error for call in open_calls),
            challenged=self._challenged_count(),
            failed_logins=sum(
                login.outcome in UNSUCCESSFUL and not (live and login.is_under_way) for login in fold.logins.all()
            ),
            abandoned=self._abandoned.calls
            + sum(call.is_ended_by_leaving and call.abandoned_ns is not None for call in open_calls),
            answered_late=self._abandoned.answered_late,
            unanswered=sum(
                call.outcome is Outcome.UNANSWERED and call.abandoned_ns is None for call in unanswered_calls
            ),
            waiting=len(sent_ns),
            waiting_since_ns=sent_ns[0] if sent_ns else None,
            answered=self.latencies.count,
            p95_ns=self.latencies.quantiles(0.95)[0],
            lost=fold.lost_count,
            ending=ending,
            bucket_ns=self._bucket_ns,
            traffic=tuple(self._traffic[:bucket_count]),
            clients=tuple((_client_text(client), t_ns) for client, t_ns in self._clients.items()),
        )

    def _challenged_count(self) -> int:
        """Returns how many of the errors so far were requests that were refused to ask for a login."""
        legs = [leg for login in self.fold.logins.all() for leg in login.legs if leg.kind == "challenge"]
        calls = [context.call for leg in legs for context in leg.http.client_messages if context.call is not None]
        return sum(call.final_outcome is not None and call.is_error for call in calls)

    def _note_client(self, client: Peer | None, t_ns: int) -> None:
        if client not in self._clients and len(self._clients) == MAX_CLIENTS:
            del self._clients[min(self._clients, key=lambda peer: self._clients[peer])]
        self._clients[client] = t_ns

    def _count_frame(self, t_ns: int) -> None:
        while t_ns >= BUCKET_COUNT * self._bucket_ns:
            pairs = zip(self._traffic[::2], self._traffic[1::2], strict=True)
            self._traffic = [first + second for first, second in pairs] + [0] * (BUCKET_COUNT // 2)
            self._bucket_ns *= 2
        self._traffic[t_ns // self._bucket_ns] += 1


def bad_ending(ending: object, status: object, signal: object) -> str | None:
    """How a finished capture ended, if it ended badly: `exit 1`, `SIGKILL`, `killed` (not closed), `not run`.

    Returns None if it ended well. How a server ends after its client has left is never a bad ending.

    Args:
        ending: the ending in the `close` record; None if there is no such record.
        status: the exit status of the server, from that record.
        signal: the signal that ended the server, from that record.
    """
    if ending is None:
        return "killed"
    if ending == "failed":
        return "not run"
    if ending == "server" and isinstance(signal, str) and signal:
        return signal[:20]
    if ending == "server" and type(status) is int and status != 0:
        return f"exit {status}"
    return None


def summarise(path: Path | str) -> Summary:
    """The summary of a capture as it is now: from the cache, or computed and then cached.

    Raises:
        NotACapture, NewerFormat: as for `Capture`.
    """
    path = Path(path)
    cached_summary = cached(path)
    if cached_summary is not None:
        return cached_summary
    live, summarizer = is_live(segments(path)[-1]), Summarizer()
    key = None if live else key_of(path)
    with Tail(path) as tail:
        while not tail.has_ended:
            items = tail.step(STEP)
            for item in items:
                summarizer.feed(item)
            if not items and tail.is_at_end:
                break
    summary = summarizer.summary(live=live)
    if key is not None:
        save(path, key, summary)
    return summary


# ---- the cache


def directory() -> Path | None:
    """Returns the directory of the summaries, next to the SQL cache, or None if no home directory is known."""
    return derived_directory()


def cached(path: Path) -> Summary | None:
    """The cached summary of a capture, if it is still valid."""
    file, key = file_of(path), key_of(path)
    if file is None or key is None:
        return None
    try:
        content = json.loads(read_bytes(file, MAX_CACHE_FILE_BYTES) or b"")
    except (ValueError, RecursionError):
        return None
    return _summary(content.get("summary")) if isinstance(content, dict) and content.get("key") == key else None


def save(path: Path, key: str, summary: Summary) -> bool:
    """Cache a summary, if possible and the capture still matches `key`; return whether it is cached now."""
    file = file_of(path)
    if file is None or summary.state == "live" or key_of(path) != key:
        return False
    return write_atomically(file, {"key": key, "summary": summary._asdict()}, MAX_CACHE_FILES)


def key_of(path: Path) -> str | None:
    """Returns everything that a summary depends on, or None if the files cannot be examined or are being written."""
    return state_of(path, READING_MODULES)


def file_of(path: Path, suffix: str = _SUFFIX) -> Path | None:
    """Returns the cache file for a capture, or None if there can be none."""
    return derived_file(path, suffix)


def _summary(members: object) -> Summary | None:
    """Returns a summary that was read from a file, or None if anything in it is invalid."""
    if (
        not isinstance(members, dict)
        or set(members) != set(Summary._fields)
        or members["state"] not in ("ended", "died")
    ):
        return None
    texts = ("name", "transport", "client", "server", "ending")
    numbers = (
        "duration_ns",
        "frames",
        "errors",
        "challenged",
        "failed_logins",
        "abandoned",
        "answered_late",
        "unanswered",
        "answered",
        "lost",
        "bucket_ns",
    )
    traffic, clients, revisions = members["traffic"], members["clients"], members["revisions"]
    is_valid = (
        all(members[name] is None or isinstance(members[name], str) for name in texts)
        and all(_is_count(members[name]) for name in numbers)
        and all(members[name] is None or _is_int64(members[name]) for name in ("wall_ns", "p95_ns", "waiting_since_ns"))
        and isinstance(traffic, list)
        and len(traffic) <= BUCKET_COUNT
        and all(map(_is_count, traffic))
        and isinstance(revisions, list)
        and len(revisions) <= MAX_REVISIONS
        and all(isinstance(revision, str) for revision in revisions)
        and isinstance(clients, list)
        and len(clients) <= MAX_CLIENTS
        and all(map(_is_client, clients))
    )
    tuples: dict[str, Any] = {}
    if is_valid:
        tuples = {"revisions": tuple(revisions), "traffic": tuple(traffic), "clients": tuple(map(tuple, clients))}
    values: dict[str, Any] = {**members, **tuples}
    return Summary(**values) if is_valid else None


def _is_count(value: Any) -> bool:
    return _is_int64(value) and value >= 0


def _is_int64(value: Any) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _is_client(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and _is_count(value[1])


def _client_text(client: Peer | None) -> str:
    return "" if client is None else client.text[:_MAX_TEXT_CHARS]


def _short_text(text: str | None) -> str | None:
    return text[:_MAX_TEXT_CHARS] if text else None
