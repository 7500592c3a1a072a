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
from mcpproxy.cli.export_file import Input, report_missing
from mcpproxy.cli.follow_selection import Followed
from mcpproxy.cli.redacted_copies import inputs
from mcpproxy.cli.selection import scope_of
from mcpproxy.exporters.otlp.capture import CaptureSpans
from mcpproxy.exporters.otlp.histograms import Histograms
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text

if TYPE_CHECKING:
    from mcpproxy.exporters.otlp.sender import Sender

METRICS_S: Final = 10.0
"""The interval at which the histograms are sent."""
PATIENCE_S: Final = 10.0
"""How long to wait at the end for a collector that does not answer."""
HURRY_S: Final = 2.0
"""How long to wait for the collector after Ctrl-C or another signal."""


def send(options: argparse.Namespace) -> int:
    """Send the spans; returns 2 if a capture could not be read completely, or spans did not arrive."""
    problem = _wrong_url(options.to)
    if problem is not None:
        return fail(problem)
    try:
        from mcpproxy.exporters.otlp.sdk import Collector
    except ImportError:
        return fail(
            "--to needs the OpenTelemetry exporter, which is not installed; in your clone of mcpproxy, run: "
            "pip install '.[otel]'"
        )
    from mcpproxy.exporters.otlp.sender import Sender

    sender = Sender(Collector(options.to), say)
    capture_sender = _Sending(sender, options)
    code, patience_s = int(Exit.FINE), HURRY_S
    try:
        code = asyncio.run(capture_sender.follow()) if options.follow else capture_sender.once()
        patience_s = PATIENCE_S
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        is_complete = capture_sender.close(patience_s)
    return code if is_complete else max(code, int(Exit.USAGE))


def _wrong_url(url: str) -> str | None:
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


class _Sending:
    """Reads captures, and hands their spans to the sender."""

    def __init__(self, sender: "Sender", options: argparse.Namespace) -> None:
        self._sender, self._options = sender, options
        self._histograms = Histograms()
        self._metrics_due_s = time.monotonic() + METRICS_S

    def once(self) -> int:
        """Send everything that the captures contain now; returns the exit code."""
        with inputs(self._options) as selection:
            sources = Input(selection.paths)
            try:
                for source in sources.each():
                    fold = source.reading.fold
                    spans = self._spans(source.id, fold, is_live=False)
                    for step in source:
                        self._sender.put_when_there_is_room(spans.on_step(step))
                    report_missing(fold.wall_ns, fold.forgotten, source.path, sources.say)
            finally:
                sources.close()
        return selection.code(int(Exit.USAGE if sources.is_spoiled else Exit.FINE))

    async def follow(self) -> int:
        """Send spans as they are recorded, until there is nothing more to follow; returns the exit code."""
        code = int(Exit.FINE)
        followed = Followed(self._options.capture, scope_of(self._options))

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
        spans = self._spans(capture_id(Capture(path)), reading.fold, is_live=True)
        async for item in follow(path):
            if item is None:
                self._send_metrics_if_due()
                continue
            self._sender.put(spans.on_step(reading.feed(item)))
        for step in reading.finish():
            self._sender.put(spans.on_step(step))
        damage = reading.damage
        if damage is not None:
            say(f"{sanitise(str(damage))}; the rest was sent; `mcpproxy verify` lists the damage")
        return int(Exit.FINE if damage is None else Exit.USAGE)

    def close(self, patience_s: float) -> bool:
        """Send the rest within a time limit, and report how many spans arrived; returns whether everything did."""
        self._send_metrics()
        outcome = self._sender.close(patience_s)
        say(f"sent {count_text(outcome.sent, 'span')}")
        if outcome.dropped:
            say(f"▲ {count_text(outcome.dropped, 'span')} dropped: the collector did not accept them")
        if not outcome.metrics_sent:
            say("▲ the latest histograms did not arrive")
        return outcome.metrics_sent and not outcome.dropped

    def _spans(self, capture: str, fold: Fold, *, is_live: bool) -> CaptureSpans:
        options = self._options
        return CaptureSpans(capture, fold, self._histograms, options.filter, payloads=options.payloads, is_live=is_live)

    def _send_metrics_if_due(self) -> None:
        if time.monotonic() >= self._metrics_due_s:
            self._send_metrics()

    def _send_metrics(self) -> None:
        from mcpproxy.exporters.otlp.sdk import metrics_data

        self._metrics_due_s = time.monotonic() + METRICS_S
        if len(self._histograms):
            self._sender.put_metrics(metrics_data(self._histograms))
