"""The HTTP recorder: turns what the relay shows it into a capture.

    bytes handed on ─→ ConnectionRecorder ─→ ExchangeRecorder ─→ BodyRecorder ─→ Writer.stage
                    ─→ (at most 10 ms) ─→ in the kernel

Forward first: records carry the stamp of the callback that forwarded the bytes, and are numbered in that order as soon
as the turn of the loop is over, so their order is the order of events. One task writes them in batches, through
aiofiles, so that no disk delays the loop. After a kill at most the last 10 ms are missing. Loss is counted and reported
as on stdio: it is the same writer.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from aiofiles.os import wrap
from orjson import dumps

from captures.addresses import clean_address
from captures.errors import CannotCreate
from captures.file import RING_BYTES, SEGMENT_BYTES, AppendError, CaptureFile, choose_path
from captures.loss import PendingRecord
from captures.paths import captures_root, config_directory, safe_name
from captures.record import members, use_orjson
from captures.redact import Redactor, load_key
from captures.verdict import Direction
from captures.writer import Writer
from mcpproxy.recorder.capture_header import Header, working_directory
from mcpproxy.recorder.exchange import ExchangeRecorder, ExchangeSummary
from mcpproxy.recorder.faults import Faults, UnrecordedTraffic
from mcpproxy.recorder.header_redaction import FieldRedactor, clean_document
from mcpproxy.recorder.machine_name import MachineName
from mcpproxy.recorder.process_events import signal_name
from mcpproxy.relay.http.observer import EndedBy, Rewritten
from mcpproxy.relay.http.observer import Event as ResponseEvent
from mcpproxy.relay.http.rewrite import Origin
from mcpproxy.wire import http1, response
from mcpproxy.wire.framing import Body

GATHER_S: Final = 0.005
"""How long records may wait to be written together with others."""
STUCK_S: Final = 1.0
"""How long a write may take before records are only queued, up to a limit."""
WAITING_BYTES: Final = 16 << 20
"""How many bytes may wait for a write; above that, the same. Under load, a write waits for the interpreter, not the
disk."""

TARGETS: Final = 256
"""How many request targets are cached, redacted and hashed: most clients use one."""

_NEAR: Final = ("unix", "127.", "[::1]:", "[::ffff:127.")
"""How the peers begin that are on this machine."""
_SWITCHING: Final = 101

BYPASS_WARNINGS: Final = {
    "bypass/location": "a response sends the client directly to {}",
    "bypass/content-location": "the Content-Location of a response leads directly to {}",
    "bypass/endpoint": "the server's endpoint event leads directly to {}: the client will refuse it or go there",
    "bypass/resource": "the server's OAuth metadata is for {}: a client that checks this will not log in",
    "bypass/challenge": "the server's OAuth challenge sends the client to {} for its metadata",
    "bypass/cookie": "the server sets a cookie that a client cannot keep for this address ({})",
}
"""The message on stderr for each flag of what leads the client around the recorder; printed once."""
BYPASS_REMEDIES: Final = frozenset({"bypass/location", "bypass/endpoint"})
"""The flags that an address of the upstream itself gets only if addresses are not rewritten."""


class HttpRecorder:
    """One capture of one listener's traffic. Also the relay's observer."""

    def __init__(
        self,
        url: str,
        tell: Callable[[str], None],
        *,
        name: str | None = None,
        capture: str | None = None,
        listen: str | None = None,
        via: str | None = None,
        opt_outs: list[str] | None = None,
        keep_path: Sequence[str] = (),
        machine: MachineName | None,
        public: str | None = None,
        command: Sequence[bytes] = (),
        environment: Mapping[bytes, bytes] | None = None,
    ) -> None:
        """Create the capture and write its header.

        Args:
            url: the URL of the upstream; with `public`, it may also be `unix:PATH`.
            tell: shows one line to the user.
            name: the server's name; None for its host, with the port if the URL names one.
            capture: a new file, or a directory; None for the default directory.
            listen: where clients reach us.
            via: the HTTP proxy between us and the upstream.
            opt_outs: what makes storing or checking less strict, or changes what passes.
            keep_path: segments of paths that the user wants stored in plain text.
            machine: the name of this machine.
            public: the URL by which clients reach the server from outside, if that is not ours.
            command: what starts the server, if that is to be done; redacted before it is stored.
            environment: the environment variables with which it is started; redacted likewise.

        Raises:
            CaptureError: there is no directory for the capture, or it cannot be created.
        """
        use_orjson()
        self.is_public = public is not None
        """Whether clients reach the server by its own public address, through proxies that we stand behind."""
        parts = urlsplit(public or url)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.endpoint = (parts.path or "/").encode()
        own = f"{parts.hostname}-{parts.port}" if parts.port else parts.hostname
        self.name = safe_name(name or own or "server")
        self.tell = tell
        self.mcp_places: set[bytes | str] = set()
        """Where messages are due in addition to the endpoint: paths, and keys of announced addresses."""
        self.warned: set[tuple[str, str]] = set()
        self.on_exchange_end: Callable[[ExchangeSummary], None] | None = None
        """Called with each exchange that has ended."""
        self._has_reported_upgrade = False
        self._rewrites = "rewrite-location" in (opt_outs or ())
        self._own = Origin(parts.scheme, parts.hostname or "", parts.port)
        redactor = Redactor(load_key(config_directory(), tell), keep_path)
        self.hash = redactor.hash
        self.secret_hash: Callable[[bytes], str] | None = redactor.hash
        """Makes the replacement for a secret in the text of a response; None to store the text as it is."""
        kept = frozenset(segment.encode() for segment in keep_path)
        self.clean = lru_cache(TARGETS)(lambda address: clean_address(address, redactor.hash, kept))
        self.redacted = FieldRedactor(redactor.hash, self.clean)
        self.uri_key = lru_cache(TARGETS)(self._uri_key)
        wall_ns = time.time_ns()
        default = "" if capture is not None else os.path.join(captures_root(), self.name)
        path = choose_path(capture, default, wall_ns, tell)
        redactions = ["headers", "path", "query", *(["argv", "env"] if command else [])]
        redactions += [] if redactor.lasting else ["key-not-kept"]
        upstream = url if url.startswith("unix:") else self.clean(url.encode())
        header = Header(
            "http",
            wall_ns,
            redactions,
            opt_outs or [],
            machine,
            name=self.name,
            argv=redactor.command(list(command)) if command else None,
            cwd=working_directory() if command else None,
            env=redactor.environment(environment) if environment is not None else None,
            upstream=upstream,
            public=None if public is None else self.clean(public.encode()),
            listen=listen,
            via=via,
        )
        self._file = CaptureFile(path, segment_bytes=min(SEGMENT_BYTES, RING_BYTES // 4), ring_bytes=RING_BYTES)
        try:
            self.writer = Writer(self._file, header.middle, tell)
        except AppendError as error:
            os.unlink(path)
            raise CannotCreate(
                f"cannot write to the capture {path}: {error}; choose another place with --capture"
            ) from error
        self._has_threads = False
        self.path = self._file.path
        self.frames = {"c2s": 0, "s2c": 0}
        self.bytes = {"c2s": 0, "s2c": 0}
        self.exchanges = 0
        self.faults = Faults(self.writer, tell)
        self._connections = 0
        self._dirty = asyncio.Event()
        self._waiting_bytes = 0
        self._writing: asyncio.Task[None] | None = None
        # Its own thread, because asyncio's may all be resolving the address of an upstream.
        self._threads = ThreadPoolExecutor(1, "capture")

    def start_threads(self) -> None:
        """Start the threads of the writer; before that, this process may fork."""
        self._has_threads = True
        self.writer.start()

    def start(self) -> None:
        """Start writing, alongside the traffic; a loop must be running."""
        if not self._has_threads:
            self.start_threads()
        self._writing = asyncio.get_running_loop().create_task(self._write_behind())

    async def _write_behind(self) -> None:
        write = wrap(self.writer.write)
        while True:
            await self._dirty.wait()
            await asyncio.sleep(GATHER_S)
            self._dirty.clear()
            self._waiting_bytes = 0
            written = asyncio.ensure_future(write(executor=self._threads))
            done, _ = await asyncio.wait({written}, timeout=STUCK_S)
            try:
                if not done:
                    self.writer.degrade()
                await written
            except Exception as error:  # noqa: BLE001 - a bug costs records; without this task, all that follow
                self.faults.in_event(error)

    def stage(self, entries: Sequence[PendingRecord], at_ns: int) -> None:
        """Number the records of what happened at that time; they are written soon."""
        self.writer.stage(entries, at_ns)
        for entry in entries:
            self._waiting_bytes += len(entry.middle)
        if self._waiting_bytes > WAITING_BYTES:
            self.writer.degrade()
            self._waiting_bytes = 0
        self._dirty.set()

    def _uri_key(self, target: bytes) -> str:
        """The key of the URI of a request's target, or of a relative address."""
        return self.hash(self.address(target).encode())

    def address(self, target: bytes) -> str:
        """The whole URI of a request's target."""
        return self.origin + target.decode("latin-1")

    # --- what the relay reports ---

    def connected(self, peer: str) -> "ConnectionRecorder":
        """A client has connected."""
        self._connections += 1
        return ConnectionRecorder(self, self._connections, peer)

    def failed(self, error: Exception) -> "UnrecordedConnection":
        """A bug in mcpproxy: one connection is no longer recorded, and its traffic is only counted."""
        self.faults.in_recording("a connection", error)
        return UnrecordedConnection(self.faults.missed)

    def clean_document(self, document: dict[str, Any]) -> bytes:
        """Returns a JSON document with each URL in it cleaned."""
        return dumps(clean_document(document, self.clean))

    def warn(self, flag: str, where: str) -> None:
        """Report what leads the client around the recorder, and to which origin: once for each kind and remedy."""
        remedy = self._remedy(flag, where)
        if (flag, remedy) not in self.warned:
            self.warned.add((flag, remedy))
            self.tell(f"{BYPASS_WARNINGS[flag].format(where)} ({flag}); traffic to it is not recorded{remedy}")

    def is_own(self, address: str) -> bool:
        """Whether an address of the server is one by which clients reach it, in whatever spelling."""
        return self._own.relative(address.encode("utf-8", "replace")) is not None

    def report_upgrade(self) -> None:
        """Report, once, that a connection carries something other than HTTP."""
        if not self._has_reported_upgrade:
            self._has_reported_upgrade = True
            self.tell(
                "a connection was upgraded from HTTP to another protocol: its bytes pass, counted but not recorded"
            )

    def _remedy(self, flag: str, where: str) -> str:
        if self.is_public:
            return f"; clients reach this server by {self.origin}, and so it should describe itself"
        if flag == "bypass/location" and where.startswith("https:") and self.origin.startswith("http:"):
            is_same_host = urlsplit(where).hostname == urlsplit(self.origin).hostname
            return f"; to record it, start with {where}/… instead of {self.origin}/…" if is_same_host else ""
        is_mended = flag in BYPASS_REMEDIES and not self._rewrites and self._own.relative(where.encode()) is not None
        return "; without --no-rewrite-location, mcpproxy would make that address relative" if is_mended else ""

    async def finish(
        self,
        ending: str,
        *,
        status: int | None = None,
        signum: int | None = None,
        last: Sequence[PendingRecord] = (),
        more_totals: Mapping[str, object] | None = None,
    ) -> None:
        """Record the end and close the capture.

        Args:
            ending: who or what ended it.
            status: the exit status of the server, if it was started by us.
            signum: the signal that ended it, likewise.
            last: records to write before the last one.
            more_totals: totals of what is not HTTP.
        """
        if self._writing is not None:
            self._writing.cancel()

        if last:
            self.writer.post(*last)
        self.faults.write_off()

        def closing() -> PendingRecord:
            lost = self.writer.lost
            totals = {name: {"frames": self.frames[name], "bytes": self.bytes[name]} for name in ("c2s", "s2c")}
            lost_in_all = {"records": lost.records, "bytes": lost.bytes}
            text = members(
                ending=ending,
                status=status,
                signal=signal_name(signum),
                totals={**totals, **(more_totals or {}), "lost": lost_in_all},
                durable_seq=self.writer.durable_seq,
            )
            return PendingRecord("close", text)

        # In the loop: all other work is over by now, and this wait is limited by the time allowed for the end.
        try:
            self.writer.close(closing)
        except Exception as error:  # noqa: BLE001 - a bug in mcpproxy must not change how the session ends
            self.faults.in_event(error)


class UnrecordedListener:
    """An observer that records nothing, for a listener whose capture cannot be created."""

    def connected(self, _peer: str) -> "UnrecordedConnection":
        """A client has connected."""
        return UnrecordedConnection({"c2s": UnrecordedTraffic(), "s2c": UnrecordedTraffic()})

    def failed(self, _error: Exception) -> None:
        """Counting has failed; the rest is not counted either."""


class UnrecordedConnection:
    """Counts the traffic on a connection that is not recorded: HTTP messages, and bytes of their content."""

    def __init__(self, missed: Mapping[Direction | None, UnrecordedTraffic]) -> None:
        self._missed = missed

    is_behind = False

    def catch_up(self) -> None:
        """Do nothing: no work is ever left."""

    def request(self, _at_ns: int, events: Sequence[http1.Event]) -> None:
        """Pieces of requests were forwarded."""
        self._count("c2s", events, http1.Head)

    def response(self, _at_ns: int, events: Sequence[ResponseEvent]) -> None:
        """Pieces of responses were forwarded."""
        self._count("s2c", events, response.ResponseHead)

    def _count(self, direction: Direction, events: Sequence[object], head: type) -> None:
        missed = self._missed[direction]
        for event in events:
            missed.frames += isinstance(event, head)
            missed.bytes += len(event.payload) if isinstance(event, (Body, response.ResponseBody)) else 0

    def tunnelled(self, _at_ns: int, direction: Direction, size: int) -> None:
        """Bytes were forwarded on an upgraded connection."""
        self._missed[direction].bytes += size

    def answered(self, _at_ns: int, _status: int, _reason: str) -> None:
        """We ourselves answered."""

    def ended(self, _at_ns: int, _by: EndedBy, _error: str | None) -> None:
        """The connection has ended."""


class ConnectionRecorder:
    """The traffic on one client connection: exchanges, one after another."""

    __slots__ = (
        "_open",
        "_requesting",
        "_work",
        "at_ns",
        "believes_proxies",
        "entries",
        "number",
        "peer",
        "recorder",
    )

    def __init__(self, recorder: HttpRecorder, number: int, peer: str) -> None:
        self.recorder = recorder
        self.number = number
        self.peer = peer
        self.believes_proxies = recorder.is_public and peer.startswith(_NEAR)
        """Whether the peer is a proxy in front of us, whose word on the client's address counts."""
        self.at_ns = 0
        """The time of the reported events, on the capture's clock: everything from one read has one time."""
        self.entries: list[PendingRecord] = []
        """The records of the reported events."""
        self._requesting: ExchangeRecorder | None = None
        self._open: list[ExchangeRecorder] = []
        self._work: list[Iterator[None]] = []  # an empty deque takes 600 bytes

    @property
    def is_behind(self) -> bool:
        """Whether any work is left."""
        return bool(self._work)

    def catch_up(self) -> None:
        """Do some of the remaining work."""
        while self._work:
            for _ in self._work[0]:
                self._place()
                return
            del self._work[0]

    def _do(self, work: Iterator[None]) -> None:
        """Start the work unless other work is waiting; the rest is done piece by piece, in order of arrival."""
        self._work.append(work)
        if len(self._work) == 1:
            self.catch_up()

    def _begin(self) -> ExchangeRecorder:
        self.recorder.exchanges += 1
        self._open.append(ExchangeRecorder(self, self.recorder.exchanges))
        return self._open[-1]

    def _begin_at(self, at_ns: int) -> None:
        self.at_ns = at_ns - self.recorder.writer.origin_ns

    def _place(self) -> None:
        entries, self.entries = self.entries, []
        if entries:
            self.recorder.stage(entries, self.at_ns)

    def request(self, at_ns: int, events: Sequence[http1.Event]) -> None:
        """Pieces of requests were forwarded, or refused."""
        self._do(self._request_events(at_ns, events))

    def _request_events(self, at_ns: int, events: Sequence[http1.Event]) -> Iterator[None]:
        self._begin_at(at_ns)
        for event in events:
            if rest := self._request_event(event):
                yield from rest
        self._place()

    def _request_event(self, event: http1.Event) -> Iterator[None] | None:
        if isinstance(event, http1.Head):
            self._requesting = self._begin()
            self._requesting.begin_request(event)
        elif isinstance(event, http1.Refusal):
            if self._requesting is None or not self._requesting.is_request_open:
                self._requesting = self._begin()
        elif self._requesting is not None:
            if isinstance(event, Body):
                return self._requesting.add_to_request(event.payload)
            self._requesting.end_request()
        return None

    def response(self, at_ns: int, events: Sequence[ResponseEvent]) -> None:
        """Pieces of responses were forwarded."""
        self._do(self._came_back(at_ns, events))

    def _came_back(self, at_ns: int, events: Sequence[ResponseEvent]) -> Iterator[None]:
        self._begin_at(at_ns)
        for event in events:
            if rest := self._response_event(event):
                yield from rest
        if self._open:
            # Most responses are complete in the chunk that begins them; then their end covers both.
            self._open[0].record_response()
        self._place()

    def _response_event(self, event: ResponseEvent) -> Iterator[None] | None:
        if not self._open:
            return None
        exchange = self._open[0]
        if isinstance(event, response.ResponseBody):
            return exchange.add_to_response(event.payload)
        if isinstance(event, response.ResponseHead):
            if not event.informational or event.status == _SWITCHING:
                exchange.begin_response(event)
        elif isinstance(event, response.Switched):
            exchange.switch()
            exchange.count_tunnelled("s2c", event.size)
        elif isinstance(event, response.ResponseEnd):
            self._open.pop(0).respond("complete", None)
        elif isinstance(event, response.ResponseAborted):
            self._open.pop(0).respond("server", event.reason)
        elif isinstance(event, Rewritten):
            exchange.rewrite(event)
        else:
            for left in self._open:
                left.respond("error", f"not followed any further: {event.reason}")
            self._open.clear()
        return None

    def tunnelled(self, _at_ns: int, direction: Direction, size: int) -> None:
        """Bytes were forwarded on an upgraded connection."""
        self._do(self._tunnelled(direction, size))

    def _tunnelled(self, direction: Direction, size: int) -> Iterator[None]:
        if self._open:
            self._open[0].count_tunnelled(direction, size)
        yield from ()

    def answered(self, at_ns: int, status: int, reason: str) -> None:
        """We ourselves answered."""
        self._do(self._answered_ourselves(at_ns, status, reason))

    def _answered_ourselves(self, at_ns: int, status: int, reason: str) -> Iterator[None]:
        self._begin_at(at_ns)
        exchange = self._open.pop(0) if self._open else ExchangeRecorder(self, 0)
        exchange.respond_ourselves(status, reason)
        self._place()
        yield from ()

    def ended(self, at_ns: int, by: EndedBy, error: str | None) -> None:
        """The connection has ended."""
        self._do(self._ended(at_ns, by, error))

    def _ended(self, at_ns: int, by: EndedBy, error: str | None) -> Iterator[None]:
        self._begin_at(at_ns)
        if self._requesting is not None and self._requesting.is_answered and self._requesting.is_request_open:
            self._requesting.end(by, error)
        for exchange in self._open:
            exchange.end(by, error)
        self._place()
        self._open.clear()
        yield from ()
