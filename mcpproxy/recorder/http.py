"""The HTTP recorder: turns the events that the relay reports into a capture.

    bytes handed on ─→ ConnectionRecorder ─→ ExchangeRecorder ─→ BodyRecorder ─→ Writer.stage
                    ─→ (at most 10 ms) ─→ in the kernel

Bytes are forwarded first. Records carry the time of the callback that forwarded the bytes, and are numbered in that
order within the same turn of the event loop, so their order is the order of events. One task writes them in batches
through aiofiles, so the disk never delays the loop. After a kill, at most the last 10 ms are missing. The writer is the
same as on stdio, so losses are counted and reported in the same way.
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
from mcpproxy.recorder.bypasses import BypassDetector
from mcpproxy.recorder.capture_header import CaptureHeader, working_directory
from mcpproxy.recorder.exchange import ExchangeRecorder
from mcpproxy.recorder.exchange_summary import ExchangeSummary
from mcpproxy.recorder.faults import FaultReporter, UnrecordedTraffic
from mcpproxy.recorder.header_redaction import FieldRedactor, clean_document
from mcpproxy.recorder.machine_name import MachineName
from mcpproxy.recorder.oauth_legs import AnnouncedLegs
from mcpproxy.recorder.process_events import signal_name
from mcpproxy.relay.http.observer import EndedBy, RewrittenAddress
from mcpproxy.relay.http.observer import Event as ResponseEvent
from mcpproxy.relay.http.rewrite import Origin
from mcpproxy.wire import http1, response
from mcpproxy.wire.framing import Body

BATCH_DELAY_S: Final = 0.005
"""How long records wait so that they can be written together with others."""
MAX_WRITE_S: Final = 1.0
"""How long a write may take before records are only queued, up to a limit."""
MAX_WAITING_BYTES: Final = 16 << 20
"""The number of waiting bytes above which records are also only queued. Under load, a write waits for the interpreter,
not the disk.
"""

MAX_CACHED_TARGETS: Final = 256
"""The maximum number of request targets whose redacted and hashed forms are cached; most clients use one."""

_LOCAL_PEER_PREFIXES: Final = ("unix", "127.", "[::1]:", "[::ffff:127.")
"""The prefixes of peers that are on this machine."""
_SWITCHING_PROTOCOLS: Final = 101


class HttpRecorder:
    """Records the traffic of one listener into a capture; it is also the relay's observer."""

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
            listen: the address on which mcpproxy listens.
            via: the HTTP proxy between mcpproxy and the upstream.
            opt_outs: the options that make storing or checking less strict, or that change traffic.
            keep_path: segments of paths that the user wants stored in plain text.
            machine: the name of this machine.
            public: the URL at which clients reach the server from outside, if it is not that of the listener.
            command: the command that starts the server, if `serve` starts it; redacted before it is stored.
            environment: the environment variables of that command; redacted before they are stored.

        Raises:
            CaptureError: the capture has no directory, or cannot be created.
        """
        use_orjson()
        self.is_public = public is not None
        """Whether clients reach the server at its own public address, through proxies in front of mcpproxy."""
        parts = urlsplit(public or url)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._endpoint = (parts.path or "/").encode()
        host_and_port = f"{parts.hostname}-{parts.port}" if parts.port else parts.hostname
        self.name = safe_name(name or host_and_port or "server")
        self.say = tell
        self.mcp_places: set[bytes | str] = set()
        """Where messages are expected in addition to the endpoint: paths, and keys of announced addresses."""
        self.oauth_legs = AnnouncedLegs(self._endpoint)
        self.on_exchange_end: Callable[[ExchangeSummary], None] | None = None
        """Called with each exchange that has ended."""
        self._has_reported_upgrade = False
        self._own_origin = Origin(parts.scheme, parts.hostname or "", parts.port)
        self.bypass_detector = BypassDetector(
            tell,
            self.origin,
            self.is_own,
            is_public=self.is_public,
            rewrites_addresses="rewrite-location" in (opt_outs or ()),
        )
        redactor = Redactor(load_key(config_directory(), tell), keep_path)
        self.hash = redactor.hash_secret
        self.secret_hash: Callable[[bytes], str] | None = redactor.hash_secret
        """Returns the replacement for a secret in the text of a response; None to store the text as it is."""
        kept_segments = frozenset(segment.encode() for segment in keep_path)
        self.clean_address = lru_cache(MAX_CACHED_TARGETS)(
            lambda address: clean_address(address, redactor.hash_secret, kept_segments)
        )
        self.redacted_fields = FieldRedactor(
            redactor.hash_secret, self.clean_address, None if public is None else parts.netloc
        )
        self.uri_key = lru_cache(MAX_CACHED_TARGETS)(self._uri_key)
        wall_ns = time.time_ns()
        default_directory = "" if capture is not None else os.path.join(captures_root(), self.name)
        path = choose_path(capture, default_directory, wall_ns, tell)
        redactions = ["headers", "path", "query", *(["argv", "env"] if command else [])]
        redactions += [] if redactor.is_key_permanent else ["key-not-kept"]
        upstream = url if url.startswith("unix:") else self.clean_address(url.encode())
        header = CaptureHeader(
            "http",
            wall_ns,
            redactions,
            opt_outs or [],
            machine,
            name=self.name,
            argv=redactor.redact_command(list(command)) if command else None,
            cwd=working_directory() if command else None,
            env=redactor.redact_environment(environment) if environment is not None else None,
            upstream=upstream,
            public=None if public is None else self.clean_address(public.encode()),
            listen=listen,
            via=via,
        )
        self._file = CaptureFile(path, segment_bytes=min(SEGMENT_BYTES, RING_BYTES // 4), ring_bytes=RING_BYTES)
        try:
            self.writer = Writer(self._file, header.segment_members, tell)
        except AppendError as error:
            os.unlink(path)
            raise CannotCreate(
                f"cannot write to the capture {path}: {error}; choose another path with --capture"
            ) from error
        self._has_threads = False
        self.path = self._file.path
        self.frame_counts = {"c2s": 0, "s2c": 0}
        self.byte_counts = {"c2s": 0, "s2c": 0}
        self.exchange_count = 0
        self.faults = FaultReporter(self.writer, tell)
        self.on_verdict_fault = self.faults.on_verdict_fault
        self._connection_count = 0
        self._has_records = asyncio.Event()
        self._waiting_bytes = 0
        self._write_task: asyncio.Task[None] | None = None
        # A separate thread, because asyncio's threads may all be resolving the address of an upstream.
        self._executor = ThreadPoolExecutor(1, "capture")

    def start_threads(self) -> None:
        """Start the threads of the writer; until then, this process can fork."""
        self._has_threads = True
        self.writer.start()

    def start(self) -> None:
        """Start the task that writes records; an event loop must be running."""
        if not self._has_threads:
            self.start_threads()
        self._write_task = asyncio.get_running_loop().create_task(self._write_records())

    async def _write_records(self) -> None:
        write = wrap(self.writer.write_staged)
        while True:
            await self._has_records.wait()
            await asyncio.sleep(BATCH_DELAY_S)
            self._has_records.clear()
            self._waiting_bytes = 0
            write_task = asyncio.ensure_future(write(executor=self._executor))
            done_tasks, _ = await asyncio.wait({write_task}, timeout=MAX_WRITE_S)
            try:
                if not done_tasks:
                    self.writer.degrade()
                await write_task
            except Exception as error:  # noqa: BLE001 - a bug loses records; if the task ended, it would lose all
                self.faults.on_event_fault(error)

    def stage(self, entries: Sequence[PendingRecord], at_ns: int) -> None:
        """Numbers records of events at a given time; they are written within milliseconds."""
        self.writer.stage(entries, at_ns)
        for entry in entries:
            self._waiting_bytes += len(entry.middle)
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self.writer.degrade()
            self._waiting_bytes = 0
        self._has_records.set()

    def _uri_key(self, target: bytes) -> str:
        """Returns the key of the URI of a request's target, or of a relative address."""
        return self.hash(self.address(target).encode())

    def address(self, target: bytes) -> str:
        """Returns the whole URI of a request's target."""
        return self.origin + target.decode("latin-1")

    # --- called by the relay ---

    def connected(self, peer: str) -> "ConnectionRecorder":
        """Returns a recorder for a client that has connected."""
        self._connection_count += 1
        return ConnectionRecorder(self, self._connection_count, peer)

    def failed(self, error: Exception) -> "UnrecordedConnection":
        """Handle a bug in mcpproxy; returns an observer that only counts the traffic of the connection."""
        self.faults.on_recording_fault("a connection", error)
        return UnrecordedConnection(self.faults.unrecorded_traffic)

    def clean_document(self, document: dict[str, Any]) -> bytes:
        """Returns a JSON document with every URL cleaned."""
        return dumps(clean_document(document, self.clean_address))

    def is_endpoint(self, target: bytes) -> bool:
        """Returns whether a request's target is the URL that `serve` was given, where all traffic is MCP."""
        return target.partition(b"?")[0] == self._endpoint

    def is_own(self, address: str) -> bool:
        """Returns whether clients reach the server at an address, regardless of its spelling."""
        return self._own_origin.relative_address(address.encode("utf-8", "replace")) is not None

    def report_upgrade(self) -> None:
        """Report, once, that a connection carries something other than HTTP."""
        if not self._has_reported_upgrade:
            self._has_reported_upgrade = True
            self.say(
                "a connection was upgraded from HTTP to another protocol: its bytes pass, counted but not recorded"
            )

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
            ending: who or what ended the recording.
            status: the exit status of the server, if `serve` started it.
            signum: the signal that ended the server, if `serve` started it.
            last: records to write before the last one.
            more_totals: totals of everything that is not HTTP.
        """
        if self._write_task is not None:
            self._write_task.cancel()

        if last:
            self.writer.post(*last)
        self.faults.write_off_traffic()

        def close_record() -> PendingRecord:
            loss = self.writer.total_loss
            totals = {
                name: {"frames": self.frame_counts[name], "bytes": self.byte_counts[name]} for name in ("c2s", "s2c")
            }
            lost_totals = {"records": loss.record_count, "bytes": loss.byte_count}
            text = members(
                ending=ending,
                status=status,
                signal=signal_name(signum),
                totals={**totals, **(more_totals or {}), "lost": lost_totals},
                durable_seq=self.writer.durable_seq,
            )
            return PendingRecord("close", text)

        # This blocks the event loop, which has no other work left; the time allowed for the end limits the wait.
        try:
            self.writer.close(close_record)
        except Exception as error:  # noqa: BLE001 - a bug in mcpproxy must not change how the session ends
            self.faults.on_event_fault(error)


class UnrecordedListener:
    """An observer that records nothing, for a listener whose capture cannot be created."""

    def connected(self, _peer: str) -> "UnrecordedConnection":
        """Returns an observer that records nothing for a client that has connected."""
        return UnrecordedConnection({"c2s": UnrecordedTraffic(), "s2c": UnrecordedTraffic()})

    def failed(self, _error: Exception) -> None:
        """Returns None: counting has failed, so the rest of the connection is not counted, either."""


class UnrecordedConnection:
    """Counts the HTTP messages, and the bytes of their content, on a connection that is not recorded."""

    def __init__(self, missed: Mapping[Direction | None, UnrecordedTraffic]) -> None:
        self._traffic = missed

    is_behind = False

    def catch_up(self) -> None:
        """Does nothing, because no work is ever left."""

    def request(self, _at_ns: int, events: Sequence[http1.RequestEvent]) -> None:
        """Count pieces of requests that were forwarded."""
        self._count("c2s", events, http1.RequestHead)

    def response(self, _at_ns: int, events: Sequence[ResponseEvent]) -> None:
        """Count pieces of responses that were forwarded."""
        self._count("s2c", events, response.ResponseHead)

    def _count(self, direction: Direction, events: Sequence[object], head_type: type) -> None:
        traffic = self._traffic[direction]
        for event in events:
            traffic.frames += isinstance(event, head_type)
            traffic.bytes += len(event.payload) if isinstance(event, (Body, response.ResponseBody)) else 0

    def tunnelled(self, _at_ns: int, direction: Direction, size: int) -> None:
        """Count bytes that were forwarded on an upgraded connection."""
        self._traffic[direction].bytes += size

    def answered(self, _at_ns: int, _status: int, _reason: str) -> None:
        """Count nothing, because mcpproxy itself responded."""

    def ended(self, _at_ns: int, _by: EndedBy, _error: str | None) -> None:
        """Count nothing at the end of the connection."""


class ConnectionRecorder:
    """Records the traffic on one client connection, which consists of consecutive exchanges."""

    __slots__ = (
        "_latest_exchange",
        "_open_exchanges",
        "_work",
        "at_ns",
        "entries",
        "number",
        "peer",
        "recorder",
        "trusts_peer",
    )

    def __init__(self, recorder: HttpRecorder, number: int, peer: str) -> None:
        self.recorder = recorder
        self.number = number
        self.peer = peer
        self.trusts_peer = recorder.is_public and peer.startswith(_LOCAL_PEER_PREFIXES)
        """Whether the peer is a trusted proxy in front of mcpproxy, which reports the client's address."""
        self.at_ns = 0
        """The time of the reported events on the capture's clock; all events from one read have the same time."""
        self.entries: list[PendingRecord] = []
        """The records of the reported events."""
        self._latest_exchange: ExchangeRecorder | None = None
        self._open_exchanges: list[ExchangeRecorder] = []
        self._work: tuple[Iterator[None], ...] = ()

    @property
    def is_behind(self) -> bool:
        """Whether any work remains."""
        return bool(self._work)

    def catch_up(self) -> None:
        """Does one step of the remaining work."""
        while self._work:
            for _ in self._work[0]:
                self._stage_entries()
                return
            self._work = self._work[1:]

    def _queue_work(self, work: Iterator[None]) -> None:
        """Queue work, and start it if no other work is queued; the rest is done step by step, in order of arrival."""
        self._work += (work,)
        if len(self._work) == 1:
            self.catch_up()

    def _begin_exchange(self) -> ExchangeRecorder:
        self.recorder.exchange_count += 1
        self._open_exchanges.append(ExchangeRecorder(self, self.recorder.exchange_count))
        return self._open_exchanges[-1]

    def _set_time(self, at_ns: int) -> None:
        self.at_ns = at_ns - self.recorder.writer.origin_ns

    def _stage_entries(self) -> None:
        entries, self.entries = self.entries, []
        if entries:
            self.recorder.stage(entries, self.at_ns)

    def request(self, at_ns: int, events: Sequence[http1.RequestEvent]) -> None:
        """Records pieces of requests that were forwarded or refused."""
        self._queue_work(self._record_requests(at_ns, events))

    def _record_requests(self, at_ns: int, events: Sequence[http1.RequestEvent]) -> Iterator[None]:
        self._set_time(at_ns)
        for event in events:
            if work := self._record_request_event(event):
                yield from work
        self._stage_entries()

    def _record_request_event(self, event: http1.RequestEvent) -> Iterator[None] | None:
        if isinstance(event, http1.RequestHead):
            self._latest_exchange = self._begin_exchange()
            self._latest_exchange.begin_request(event)
        elif isinstance(event, http1.Refusal):
            if self._latest_exchange is None or not self._latest_exchange.is_request_open:
                self._latest_exchange = self._begin_exchange()
        elif self._latest_exchange is not None:
            if isinstance(event, Body):
                return self._latest_exchange.add_to_request(event.payload)
            if event.trailers or event.has_extensions:
                self._latest_exchange.note_extras()
            self._latest_exchange.end_request()
        return None

    def response(self, at_ns: int, events: Sequence[ResponseEvent]) -> None:
        """Records pieces of responses that were forwarded."""
        self._queue_work(self._record_responses(at_ns, events))

    def _record_responses(self, at_ns: int, events: Sequence[ResponseEvent]) -> Iterator[None]:
        self._set_time(at_ns)
        for event in events:
            if work := self._record_response_event(event):
                yield from work
        if self._open_exchanges:
            # Most responses are complete in the chunk that begins them; then one record covers both begin and end.
            self._open_exchanges[0].record_response()
        self._stage_entries()

    def _record_response_event(self, event: ResponseEvent) -> Iterator[None] | None:
        if not self._open_exchanges:
            return None
        exchange = self._open_exchanges[0]
        if isinstance(event, response.ResponseBody):
            return exchange.add_to_response(event.payload)
        if isinstance(event, response.ResponseHead):
            if not event.is_informational or event.status == _SWITCHING_PROTOCOLS:
                exchange.begin_response(event)
                exchange.drop_fields()
        elif isinstance(event, response.ProtocolSwitch):
            exchange.on_switch()
            self.recorder.report_upgrade()
            exchange.count_tunnelled("s2c", event.size)
        elif isinstance(event, response.ResponseEnd):
            self._open_exchanges.pop(0).on_response_end("complete", None)
        elif isinstance(event, response.ResponseAborted):
            self._open_exchanges.pop(0).on_response_end("server", event.reason)
        elif isinstance(event, RewrittenAddress):
            exchange.on_rewrite(event)
        else:
            for open_exchange in self._open_exchanges:
                open_exchange.on_response_end("error", f"no longer followed: {event.reason}")
            self._open_exchanges.clear()
        return None

    def tunnelled(self, _at_ns: int, direction: Direction, size: int) -> None:
        """Count bytes that were forwarded on an upgraded connection."""
        self._queue_work(self._count_tunnelled(direction, size))

    def _count_tunnelled(self, direction: Direction, size: int) -> Iterator[None]:
        if self._open_exchanges:
            self._open_exchanges[0].count_tunnelled(direction, size)
        yield from ()

    def answered(self, at_ns: int, status: int, reason: str) -> None:
        """Record that mcpproxy itself responded."""
        self._queue_work(self._record_proxy_response(at_ns, status, reason))

    def _record_proxy_response(self, at_ns: int, status: int, reason: str) -> Iterator[None]:
        self._set_time(at_ns)
        exchange = self._open_exchanges.pop(0) if self._open_exchanges else ExchangeRecorder(self, 0)
        exchange.on_proxy_response(status, reason)
        self._stage_entries()
        yield from ()

    def ended(self, at_ns: int, by: EndedBy, error: str | None) -> None:
        """Record that the connection has ended."""
        self._queue_work(self._record_end(at_ns, by, error))

    def _record_end(self, at_ns: int, by: EndedBy, error: str | None) -> Iterator[None]:
        self._set_time(at_ns)
        if (
            self._latest_exchange is not None
            and self._latest_exchange.has_early_response
            and self._latest_exchange.is_request_open
        ):
            self._latest_exchange.end(by, error)
        for exchange in self._open_exchanges:
            exchange.end(by, error)
        self._stage_entries()
        self._open_exchanges.clear()
        self._latest_exchange = None
        yield from ()
