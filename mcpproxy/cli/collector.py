"""`mcpproxy export --to`: sends the spans of captures to a collector, once or continuously.

With --follow, it is a separate process that reads the capture as `show --follow` does; no recorder waits for it. It
ends as `show --follow` does: with the session if it follows a single one, else on Ctrl-C.
"""

import argparse
import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from analysis.conversation.fold import Fold
from analysis.reading import Reading
from captures.errors import CaptureError
from captures.follow import follow
from captures.identity import capture_id
from captures.reader import Capture
from mcpproxy.cli.diagnostics import INTERRUPTED, Exit, fail, say
from mcpproxy.cli.export_file import ExportInput
from mcpproxy.cli.follow_selection import FollowedCaptures
from mcpproxy.cli.redacted_copies import command_inputs
from mcpproxy.cli.selection import scope_of
from mcpproxy.exporters.files import report_missing
from mcpproxy.exporters.otlp.capture import SpanBuilder
from mcpproxy.exporters.otlp.histograms import DurationHistograms
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text

if TYPE_CHECKING:
    from mcpproxy.exporters.otlp.sender import SpanSender

METRICS_INTERVAL_S: Final = 10.0
"""The interval at which the histograms are sent."""
CLOSE_TIMEOUT_S: Final = 10.0
"""How long to wait at the end for a collector that does not answer."""
INTERRUPTED_TIMEOUT_S: Final = 2.0
"""How long to wait for the collector after Ctrl-C or another signal."""


def send_spans(options: argparse.Namespace) -> int:
    """Send the spans; returns 2 if a capture could not be read completely, or spans did not arrive."""
    problem = _url_error(options.to)
    if problem is not None:
        return fail(problem)
    try:
        from mcpproxy.exporters.otlp.sdk import Collector
    except ImportError:
        return fail(
            "--to needs the OpenTelemetry exporter, which is not installed; in your clone of mcpproxy, run: "
            "pip install '.[otel]'"
        )
    from mcpproxy.exporters.otlp.sender import SpanSender

    sender = SpanSender(Collector(options.to), say)
    capture_sender = _CaptureSender(sender, options)
    code, patience_s = int(Exit.FINE), INTERRUPTED_TIMEOUT_S
    try:
        code = asyncio.run(capture_sender.follow()) if options.follow else capture_sender.send_once()
        patience_s = CLOSE_TIMEOUT_S
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        is_complete = capture_sender.close(patience_s)
    return code if is_complete else max(code, int(Exit.USAGE))


def _url_error(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if not is_valid:
        return "--to takes the URL of a collector, such as http://localhost:4318"
    if parts.username is not None or parts.query or parts.fragment:
        return "--to takes scheme, host, port and path only; give a token in OTEL_EXPORTER_OTLP_HEADERS"
    if parts.path.endswith(("/v1/traces", "/v1/metrics")):
        return "--to takes the base URL; /v1/traces and /v1/metrics are appended to it"
    return None


class _CaptureSender:
    """Reads captures, and hands their spans to the sender."""

    def __init__(self, sender: "SpanSender", options: argparse.Namespace) -> None:
        self._sender, self._options = sender, options
        self._histograms = DurationHistograms()
        self._metrics_due_s = time.monotonic() + METRICS_INTERVAL_S

    def send_once(self) -> int:
        """Send everything that the captures contain now; returns the exit code."""
        with command_inputs(self._options) as selection:
            sources = ExportInput(selection.paths)
            try:
                for source in sources.sources():
                    fold = source.reading.fold
                    spans = self._new_spans(source.id, fold, is_live=False)
                    for step in source:
                        self._sender.queue_spans_when_possible(spans.on_step(step))
                    report_missing(fold.wall_ns, fold.forgotten_entries, source.path, sources.say)
            finally:
                sources.close()
        return selection.exit_code(int(Exit.USAGE if sources.has_losses else Exit.FINE))

    async def follow(self) -> int:
        """Send spans as they are recorded, until there is nothing more to follow; returns the exit code."""
        code = int(Exit.FINE)
        followed = FollowedCaptures(self._options.capture, scope_of(self._options))

        async def send_capture(path: Path) -> None:
            nonlocal code
            try:
                code = max(code, await self._follow(path))
            except CaptureError as error:
                code = fail(str(error))

        async with asyncio.TaskGroup() as group:
            async for path in followed.paths():
                group.create_task(send_capture(path))
        return code

    async def _follow(self, path: Path) -> int:
        reading = Reading()
        spans = self._new_spans(capture_id(Capture(path)), reading.fold, is_live=True)
        async for item in follow(path):
            if item is None:
                self._send_metrics_if_due()
                continue
            self._sender.queue_spans(spans.on_step(reading.feed(item)))
        for step in reading.finish():
            self._sender.queue_spans(spans.on_step(step))
        damage = reading.damage
        if damage is not None:
            say(f"{sanitise(str(damage))}; the rest was sent; `mcpproxy verify` lists the damage")
        return int(Exit.FINE if damage is None else Exit.USAGE)

    def close(self, patience_s: float) -> bool:
        """Send the rest within a time limit, and report how many spans arrived; returns whether everything did."""
        self._send_metrics()
        outcome = self._sender.close(patience_s)
        say(f"sent {count_text(outcome.sent_count, 'span')}")
        if outcome.dropped_count:
            say(f"▲ {count_text(outcome.dropped_count, 'span')} dropped: the collector did not accept them")
        if not outcome.has_sent_metrics:
            say("▲ the latest histograms did not arrive")
        return outcome.has_sent_metrics and not outcome.dropped_count

    def _new_spans(self, capture: str, fold: Fold, *, is_live: bool) -> SpanBuilder:
        options = self._options
        return SpanBuilder(capture, fold, self._histograms, options.filter, payloads=options.payloads, is_live=is_live)

    def _send_metrics_if_due(self) -> None:
        if time.monotonic() >= self._metrics_due_s:
            self._send_metrics()

    def _send_metrics(self) -> None:
        from mcpproxy.exporters.otlp.sdk import sdk_metrics

        self._metrics_due_s = time.monotonic() + METRICS_INTERVAL_S
        if len(self._histograms):
            self._sender.queue_metrics(sdk_metrics(self._histograms))
