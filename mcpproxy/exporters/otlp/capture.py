"""One capture in the terms of OpenTelemetry: spans as they end, and the durations of everything that has ended."""

from analysis.conversation.fold import Fold
from analysis.conversation.session import Peer
from analysis.filter import Filter
from analysis.reading import Step
from mcpproxy.exporters.calls import Calls, EndedCall, FinalCalls
from mcpproxy.exporters.otlp.conventions import CallSpan, Conventions
from mcpproxy.exporters.otlp.histograms import Histograms


class CaptureSpans:
    """The spans of one capture; counts their durations on the way."""

    def __init__(
        self,
        capture: str,
        fold: Fold,
        histograms: Histograms,
        only: Filter | None = None,
        *,
        payloads: bool = False,
        is_live: bool = False,
    ) -> None:
        """Start without spans.

        Args:
            capture: the id of the capture.
            fold: the state of the conversation, which each step updates.
            histograms: count the durations.
            only: selects calls; None for all.
            payloads: whether arguments and results become attributes.
            is_live: whether a cancelled call becomes a span at once, which then cannot show that it was answered late.
        """
        self.calls = Calls(fold)
        self._conventions = Conventions(self.calls.fold, capture, payloads=payloads)
        self._histograms = histograms
        self._filtered = only is not None
        self._final = FinalCalls(only, is_live=is_live)

    def on_step(self, step: Step) -> list[CallSpan]:
        """Process the next step; returns the spans that it ends.

        The last one also counts the sessions, unless calls were selected.
        """
        ended = self._final.on_ended(self.calls.on_step(step), step)
        spans = self._spans(ended) if ended else []
        if step.end is not None and not self._filtered:
            self._count_sessions()
        return spans

    def _spans(self, calls: list[EndedCall]) -> list[CallSpan]:
        spans = [span for call in calls for span in self._conventions.spans(call)]
        for span in spans:
            self._histograms.add(span)
        return spans

    def _count_sessions(self) -> None:
        fold, conventions = self.calls.fold, self._conventions
        for session, begun_ns, ended_ns in self.calls.sessions():
            if session.delimited == "peer" or session.is_guess:
                continue  # a guess: where the protocol has no sessions, nothing says when one ends
            client = session.client or Peer("unknown client", "")
            server = session.server or Peer(fold.name or "unknown server", "")
            for is_server, peer in ((False, client), (True, server)):
                self._histograms.add_session(
                    conventions.service(peer),
                    conventions.session(session, is_server=is_server),
                    conventions.at(begun_ns),
                    conventions.at(ended_ns),
                    is_server=is_server,
                )
