"""Creates the OpenTelemetry spans of one capture as its calls end, and counts their durations."""

from analysis.conversation.fold import Fold
from analysis.conversation.session import Peer
from analysis.filter import Filter
from analysis.reading import Step
from mcpproxy.exporters.calls import CallCollector, EndedCall, FinalCallSelector
from mcpproxy.exporters.otlp.conventions import CallSpan, CallSpanBuilder
from mcpproxy.exporters.otlp.histograms import DurationHistograms


class SpanBuilder:
    """Creates the spans of one capture, and adds their durations to histograms."""

    def __init__(
        self,
        capture: str,
        fold: Fold,
        histograms: DurationHistograms,
        selection: Filter | None = None,
        *,
        payloads: bool = False,
        is_live: bool = False,
    ) -> None:
        """Start without spans.

        Args:
            capture: the id of the capture.
            fold: the state of the conversation, which each step updates.
            histograms: the histograms that count the durations.
            selection: matches the selected calls; None selects all.
            payloads: whether arguments and results become attributes.
            is_live: whether cancelled calls become spans at once, which then cannot show that they were answered late.
        """
        self.calls = CallCollector(fold)
        self._conventions = CallSpanBuilder(self.calls.fold, capture, payloads=payloads)
        self._histograms = histograms
        self._has_filter = selection is not None
        self._final_calls = FinalCallSelector(selection, is_live=is_live)

    def on_step(self, step: Step) -> list[CallSpan]:
        """Process the next step; returns the spans that it ends.

        The last step also counts the sessions, unless there is a filter.
        """
        ended_calls = self._final_calls.on_ended(self.calls.on_step(step), step)
        spans = self._spans(ended_calls) if ended_calls else []
        if step.end is not None and not self._has_filter:
            self._count_sessions()
        return spans

    def _spans(self, calls: list[EndedCall]) -> list[CallSpan]:
        spans = [span for call in calls for span in self._conventions.spans(call)]
        for span in spans:
            self._histograms.add_span(span)
        return spans

    def _count_sessions(self) -> None:
        fold, conventions = self.calls.fold, self._conventions
        for session, start_ns, end_ns in self.calls.session_spans():
            if session.delimited == "peer" or session.is_guess:
                continue  # a guess: the protocol has no sessions here, so the end of this one is unknown
            client = session.client or Peer("unknown client", "")
            server = session.server or Peer(fold.name or "unknown server", "")
            for is_server, peer in ((False, client), (True, server)):
                self._histograms.add_session(
                    conventions.service(peer),
                    conventions.session_attributes(session, is_server=is_server),
                    conventions.unix_ns(start_ns),
                    conventions.unix_ns(end_ns),
                    is_server=is_server,
                )
