"""The turns of a report: what each prompt of a user caused, on all servers of its client."""

from collections.abc import Collection
from typing import Any, Final

from analysis import clock
from analysis.conversation.call import Call, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.turnless_calls import TurnlessCalls
from analysis.conversation.turns import Turn, TurnKey, Turns, call_of_turn, key_of
from analysis.reading import End
from mcpproxy.html_report import limits
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.statuses import outcome_status, waiting_status
from mcpproxy.wording.turns import no_turn_text, short_id, turn_text
from mcpproxy.wording.units import duration

_MAX_NAME_CHARS: Final = 80
_NS_PER_US: Final = 1_000


class ReportTurns:
    """The turns of all captures, and the rows of their calls."""

    def __init__(self) -> None:
        """Start without turns."""
        self._turns = Turns()
        self._rows: dict[TurnKey, list[dict[str, Any]]] = {}
        """The first calls of each turn, as the page reads them."""
        self._open_calls: dict[int, Call] = {}
        """The calls of the current capture that may still change, by number."""
        self._known_count = 0
        """How many calls of the current capture have been seen."""
        self._capture, self._server, self._opened_ns = 0, "", 0
        self._fold = Fold()
        self._omitted_call_count = 0
        """How many calls are in no turn of the report, because there are too many turns."""
        self._turnless_calls = TurnlessCalls()

    def begin_capture(self, number: int, server: str, opened_ns: int | None, fold: Fold) -> None:
        """Begin the next capture.

        Args:
            number: its position in the report.
            server: the name of its server. Untrusted text.
            opened_ns: when it was opened, in ns since 1970; None if that is not known.
            fold: its conversation, which each step updates.
        """
        self._capture, self._server, self._opened_ns = number, server, opened_ns or 0
        self._known_count = 0
        self._fold = fold

    def on_step(self, changed: Collection[Call], end: End | None) -> None:
        """Process what a step changes.

        Args:
            changed: the calls that it changes.
            end: for the last step of the capture, why it ends.
        """
        for call in changed:
            if call.number >= self._known_count:
                self._known_count = call.number + 1
                self._open_calls[call.number] = call
            if call.is_over and self._open_calls.pop(call.number, None) is not None:
                self._add(call)
        if end is not None:
            for call in self._open_calls.values():
                self._add(call, is_live=end == "open")
            self._open_calls.clear()

    def figures(self) -> list[dict[str, Any]]:
        """Returns the figure of the overview; none if no call names a turn."""
        if not self._rows:
            return []
        failed_count = sum(turn.failure_count > 0 for turn in self._turns)
        more = f"{failed_count:,} with failures" if failed_count else ""
        figure = {"name": "turns", "value": f"{len(self._rows):,}", "more": more, "is_bad": False}
        return [figure | {"is_more_bad": bool(failed_count)}]

    def as_object(self) -> dict[str, Any]:
        """Returns the turns as the page reads them, the worst first, as in `stats --by turn`."""
        ranked = sorted(self._turns, key=lambda turn: (-turn.failure_count, -turn.waited_ns, -len(turn.calls)))
        return {
            "turns": [self._object(turn) for turn in ranked[: limits.MAX_TURNS]],
            "more": max(0, len(ranked) - limits.MAX_TURNS),
            "without": no_turn_text(self._turnless_calls.by_client()),
        }

    def omissions(self) -> list[str]:
        """Returns what the report leaves out of the turns, in sentences."""
        if not self._omitted_call_count:
            return []
        counted_text = f"The report counts the first {limits.MAX_COUNTED_TURNS:,} turns"
        return [f"{counted_text}; it omits {count_text(self._omitted_call_count, 'call')} of other turns."]

    def _add(self, call: Call, *, is_live: bool = False) -> None:
        self._turnless_calls.add(call)
        ids = call.client_ids
        key = key_of(ids)
        if key is None:
            return
        if key not in self._rows and len(self._rows) >= limits.MAX_COUNTED_TURNS:
            self._omitted_call_count += 1
            return
        last_ns = clock.duration_ns(self._fold.t_ns, self._fold.wall_ns, is_live=is_live)
        until_ns = self._fold.open_until_ns(call, last_ns)
        entry = call_of_turn(call, self._server, self._opened_ns, until_ns, is_live=is_live)
        self._turns.add(ids, entry)
        rows = self._rows.setdefault(key, [])
        if len(rows) < limits.MAX_CALLS_PER_TURN:
            rows.append(self._row(call, is_waiting=is_live and call.is_open, is_failed=entry.is_failed))

    def _row(self, call: Call, *, is_waiting: bool, is_failed: bool) -> dict[str, Any]:
        status = outcome_status(call.outcome, is_abandoned=call.abandoned_ns is not None)
        status = waiting_status() if is_waiting else status._replace(late_ns=call.late_ns)
        is_plain = call.outcome is Outcome.RESULT and call.late_ns is None
        lasted_ns = call.lasted_ns
        return {
            "capture": self._capture,
            "frame": call.request.seq,
            "what": sanitise(" ".join(filter(None, (call.request.method, call.name))), _MAX_NAME_CHARS),
            "from": call.started_ns // _NS_PER_US,
            "lasted": -1 if lasted_ns is None else lasted_ns // _NS_PER_US,
            "took": "" if lasted_ns is None else duration(lasted_ns),
            "outcome": "" if is_plain else status.word,
            "is_bad": is_failed,
        }

    def _object(self, turn: Turn) -> dict[str, Any]:
        key, rows = turn.key, self._rows[turn.key]
        return {
            "client": sanitise(key.client, _MAX_NAME_CHARS),
            "short": short_id(key.turn),
            "id": sanitise(key.turn, limits.MAX_ID_CHARACTERS),
            "conversation": sanitise(key.session, limits.MAX_ID_CHARACTERS),
            "text": turn_text(turn),
            "is_bad": turn.failure_count > 0,
            "servers": [sanitise(server, _MAX_NAME_CHARS) for server in turn.servers[: limits.MAX_SERVERS_PER_TURN]],
            "calls": rows,
            "more": len(turn.calls) - len(rows),
        }
