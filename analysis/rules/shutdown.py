"""The group `shutdown`: how a session on stdio ends."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.message import InvalidMessage
from analysis.conversation.session import Session, era_in_force
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.revisions import HANDSHAKE_ERA, Span, rank_of
from analysis.rules.base import NOTE, WARNING, CaptureEnd, Rule
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.support.pipes import GRACE_NS, Pipes, pipes_of
from captures.record import Record

MAX_LINGERING_NS: Final = 5_000_000_000
"""How long a server may keep running after its stdin was closed."""
MIN_PATIENT_WAIT_NS: Final = 1_000_000_000
"""The shortest wait before a client's signal that shows that the client had to kill the server."""
MIN_WAIT_NS: Final = 100_000_000
"""The shortest time that a client must wait after closing the server's stdin before it sends a signal."""


_KILL_SIGNALS: Final = frozenset({"SIGINT", "SIGKILL", "SIGQUIT", "SIGTERM"})
"""Signals with which a client ends a server. SIGHUP is not one of them: it means that the terminal was closed."""


class _ServerEndRule(Rule):
    """A rule that is decided when the server has ended, or at the end of the capture.

    If the server ended first, the rule waits a moment for the client's records, because the client may have ended the
    server.
    """

    def on_record(self, record: Record, session: Session) -> Iterable[Finding]:
        pipes = pipes_of(session)
        pipes.update(record, session, self.fold)
        if record is not pipes.process_end:
            return ()
        if pipes.is_server_first and pipes.server_gone_ns is not None and not pipes.may_be_ended_by_client:
            until_ns = max(pipes.server_gone_ns + GRACE_NS + 1, record.t_ns)
            self.check_later(until_ns, lambda: self._check_end_once(pipes, session))
            return ()
        return self._check_end_once(pipes, session)

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterable[Finding]:  # noqa: ARG002 - the same for all endings
        return self._check_end_once(pipes_of(session), session)

    def _check_end_once(self, pipes: Pipes, session: Session) -> Iterable[Finding]:
        """Returns the findings about the server's end on the first call, and none on later calls."""
        if self.id in pipes.decided_rules:
            return ()
        pipes.decided_rules.add(self.id)
        return self._check_end(pipes, session)

    def _check_end(self, pipes: Pipes, session: Session) -> Iterable[Finding]:  # noqa: ARG002
        """Returns the findings about the server's end."""
        return ()


class ServerDied(_ServerEndRule):
    """The server ends while requests of the client are unanswered.

    **Why it matters.** These calls never get an answer; hosts show them as hanging or as "connection closed".

    **On the wire.** `> {"id":4,"method":"tools/call",…}`, and then stdout is closed

    **Instead.** Look at the exit status and at the last lines on stderr; the finding names their records. If a server
    has to stop, it should answer first.
    """

    id = "shutdown/server-died"
    who = "server"
    impact = Impact.CONNECTION
    source = "2024-11-05 basic/lifecycle; 2026-07-28 basic/transports/stdio"

    def _check_end(self, pipes: Pipes, session: Session) -> Iterator[Finding]:
        if not pipes.has_died or pipes.server_end is None:
            return
        requests = ", ".join(
            f"{_shortened(call.request.method)} (id {_shortened(call.request.id.text)})"
            for call in pipes.open_calls[:3]
        )
        others = f" and {pipes.open_count - 3} more" if pipes.open_count > 3 else ""
        text = f"the server {_end_phrase(pipes)} before answering {requests}{others}"
        if pipes.stderr_seqs:
            text += f"; its last output on stderr is in record {pipes.stderr_seqs[-1]}"
        related = (*(call.request.seq for call in pipes.open_calls), *pipes.stderr_seqs)
        yield self.finding(pipes.server_end, text, session=session, related=related)


class ServerLeft(_ServerEndRule):
    """The server ends before the client has closed stdin, with all requests answered.

    **Why it matters.** This is legal, but normally the client decides when a session is over, and its next call will
    fail.

    **On the wire.** The server closes stdout while its stdin is still open.

    **Instead.** Run until stdin is closed. If the client closes stdin or sends a signal within 50 ms, nothing is
    reported, as it may have ended the server itself.
    """

    id = "shutdown/server-left"
    who = "server"
    level = NOTE
    impact = Impact.CONNECTION
    source = "2024-11-05 basic/lifecycle"

    def _check_end(self, pipes: Pipes, session: Session) -> Iterator[Finding]:
        has_left = pipes.is_server_first and not pipes.open_count and not pipes.is_ended_by_client
        if has_left and pipes.server_end is not None:
            yield self.finding(
                pipes.server_end, f"the server {_end_phrase(pipes)} before the client did", session=session
            )


class ExitStatus(_ServerEndRule):
    """The server exits with a status other than 0, or is ended by a signal that the recorder did not pass on.

    **Why it matters.** Some hosts treat this as a crash and restart the server, or stop using it.

    **On the wire.** Exit status 1 after an orderly end, or SIGKILL from a system that ran out of memory

    **Instead.** Exit with 0 when stdin is closed.
    """

    id = "shutdown/exit-status"
    who = "server"
    level = NOTE
    source = "2024-11-05 basic/lifecycle"

    def _check_end(self, pipes: Pipes, session: Session) -> Iterator[Finding]:
        if pipes.process_end is None:
            return
        status, signal = pipes.process_end.members.get("status"), pipes.process_end.members.get("signal")
        is_sent = signal in pipes.signal_names or (pipes.may_be_ended_by_client and pipes.is_signalled)
        if (type(status) is int and status != 0) or (isinstance(signal, str) and not is_sent):
            yield self.finding(pipes.process_end, f"the server {_end_phrase(pipes)}", session=session)


class ServerLingers(Rule):
    """The server keeps running after its stdin was closed.

    **Why it matters.** Closing stdin is how a client ends a session. Servers that ignore it accumulate, or delay the
    exit of their host until they are killed.

    **On the wire.** Stdin is closed, and the server still runs five seconds later, or ends only on a signal.

    **Instead.** Exit when stdin ends: stop timers and threads that keep the process alive.
    """

    id = "shutdown/server-lingers"
    who = "server"
    level = WARNING
    levels: ClassVar[Mapping[Span, Level]] = {HANDSHAKE_ERA: NOTE}
    needs_time = True
    source = "2026-07-28 basic/transports/stdio"

    def on_record(self, record: Record, session: Session) -> Iterator[Finding]:
        pipes = pipes_of(session)
        pipes.update(record, session, self.fold)
        if record is pipes.process_end:
            yield from self._check_end(pipes, session, record, record.t_ns)

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:
        pipes = pipes_of(session)
        if pipes.process_end is None:
            # If the capture contains no process events, the server counts as ended when its stdout ends.
            end_record = pipes.stdout_close or pipes.stdin_close
            yield from self._check_end(
                pipes, session, end_record, ending.t_ns if end_record is pipes.stdin_close else None
            )

    def _check_end(
        self, pipes: Pipes, session: Session, end_record: Record | None, until_ns: int | None
    ) -> Iterator[Finding]:
        stdin_close = pipes.stdin_close
        if stdin_close is None or end_record is None or pipes.is_server_first:
            return
        lingered_ns = (end_record.t_ns if until_ns is None else until_ns) - stdin_close.t_ns
        signal_delays_ns = [
            signal_ns - stdin_close.t_ns
            for signal_ns in pipes.ending_signals_ns
            if MIN_PATIENT_WAIT_NS <= signal_ns - stdin_close.t_ns <= lingered_ns
        ]
        if lingered_ns > MAX_LINGERING_NS:
            text = f"the server keeps running for {lingered_ns // 10**9} s after its stdin was closed"
        elif signal_delays_ns:
            text = f"the server ended only after a signal, {signal_delays_ns[-1] // 10**9} s after its stdin was closed"
        else:
            return
        level = self.level_at(rank_of(session.revision_in_force), era_in_force(session, session.revision_in_force))
        yield self.finding(
            end_record,
            text,
            session=session,
            level=level,
            related=(stdin_close.seq,) if end_record is not stdin_close else (),
        )


class KilledFirst(Rule):
    """The client sends a signal to end the server before it has closed the server's stdin, or right after that.

    **Why it matters.** The server has no time to finish its responses and write buffered data.

    **On the wire.** SIGTERM or SIGINT while stdin is open

    **Instead.** Close stdin, wait for the process to end, and send a signal only if it does not.
    """

    id = "shutdown/killed-first"
    who = "client"
    level = WARNING
    impact = Impact.MESSAGE
    source = "2024-11-05 basic/lifecycle"

    def on_record(self, record: Record, session: Session) -> Iterator[Finding]:
        pipes = pipes_of(session)
        pipes.update(record, session, self.fold)
        members = record.members
        if record.rec != "signal" or members.get("event") != "received" or members.get("origin") == "terminal":
            return
        # The server may get the signal directly as well, and end before the recorder passes it on.
        is_first = pipes.ending_signals_ns[:1] == [record.t_ns] and (
            pipes.server_gone_ns is None or pipes.may_be_ended_by_client
        )
        stdin_close = pipes.stdin_close
        if members.get("name") not in _KILL_SIGNALS or not is_first:
            return
        if stdin_close is None:
            text = "the client signals the server to end before closing its stdin"
            yield self.finding(record, text, session=session)
        elif record.t_ns - stdin_close.t_ns < MIN_WAIT_NS:
            waited_ms = (record.t_ns - stdin_close.t_ns) // 10**6
            text = f"the client waits only {waited_ms} ms before it signals the server to end"
            yield self.finding(record, text, session=session, related=(stdin_close.seq,))


class WriteAfterClose(Rule):
    """The server sends something other than an expected response after its stdin was closed.

    **Why it matters.** This is legal, but the client has probably stopped reading.

    **On the wire.** Stdin is closed, then `< {"method":"notifications/message",…}`

    **Instead.** Finish the open responses, and exit.
    """

    id = "shutdown/write-after-close"
    who = "server"
    level = NOTE
    source = "2024-11-05 basic/lifecycle"

    def on_record(self, record: Record, session: Session) -> Iterator[Finding]:
        pipes = pipes_of(session)
        pipes.update(record, session, self.fold)
        if pipes.stdin_close is record:
            self.set_watching(session, True)
        return iter(())

    def on_message(self, context: MessageContext) -> Iterator[Finding]:
        message = context.message
        if message.sender != "server" or isinstance(message, InvalidMessage):
            return
        stdin_close = pipes_of(context.session).stdin_close
        if stdin_close is not None and stdin_close.seq < message.seq and context.answered is None:
            text = "the message is sent after the server's stdin was closed, and answers no open request"
            yield self.finding(context, text, related=(stdin_close.seq,))


class RequestWhileClosing(Rule):
    """The client closes the session while its own requests are open.

    **Why it matters.** This is legal, but the server's work on them is wasted.

    **On the wire.** `> {"id":9,"method":"tools/call",…}`, and then stdin is closed

    **Instead.** Wait for the responses or cancel the requests, and then close stdin.
    """

    id = "shutdown/request-while-closing"
    who = "client"
    level = NOTE
    impact = Impact.COST
    at_end = True
    source = "2024-11-05 basic/lifecycle"

    def on_record(self, record: Record, session: Session) -> Iterator[Finding]:
        pipes_of(session).update(record, session, self.fold)
        return iter(())

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:
        pipes = pipes_of(session)
        stdin_close = pipes.stdin_close
        if stdin_close is None or ending.reason == "open" or pipes.is_server_first:
            return
        open_requests = [
            call.request
            for call in ending.unanswered
            if call.request.sender == "client"
            and call.outcome is Outcome.UNANSWERED
            and call.request.seq < stdin_close.seq
        ]
        requests = [request for request in open_requests if request.method not in ENDLESS_METHODS]
        if requests:
            verb = "is" if len(requests) == 1 else "are"
            text = f"the client closes stdin while {len(requests)} of its requests {verb} open"
            yield self.finding(
                stdin_close, text, session=session, related=[request.seq for request in requests[:_MAX_NAMED_REQUESTS]]
            )


# ---- shared by the rules

_MAX_NAMED_REQUESTS: Final = 8


def _end_phrase(pipes: Pipes) -> str:
    """Returns how the server ended, as a phrase for findings."""
    members = pipes.process_end.members if pipes.process_end is not None else {}
    status, signal = members.get("status"), members.get("signal")
    if isinstance(signal, str):
        return f"is ended by {_shortened(signal)}"
    return f"ends with status {status}" if type(status) is int else "closes its stdout"


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"
