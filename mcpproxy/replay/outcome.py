"""What became of a replay, apart from what its capture shows."""

from collections import Counter
from typing import Final

from mcpproxy.replay.open_calls import OpenCall
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import duration

_MAX_NAME_CHARS: Final = 80
_MAX_METHODS: Final = 1_000
"""The maximum number of methods that are remembered."""
_MAX_NAMED: Final = 5
"""The maximum number of calls that are named; others are counted."""


class ReplayOutcome:
    """Counts what was sent, and what did not go as in the recording."""

    def __init__(self) -> None:
        """Begin with nothing sent."""
        self.sent = 0
        """How many of the client's items were sent."""
        self.unsent = 0
        """How many were not, because the replay stopped."""
        self.left_out: Counter[str] = Counter()
        """How many of the client's items could not be sent, or must not be, by the reason, in words of ours."""
        self.stopped = ""
        """Why it stopped before the end; empty if it did not."""
        self.failure = ""
        """Why there is nothing to compare, such as a handshake that failed; empty if there is."""
        self.is_given_up = False
        """Whether the failure is what the server does without end: its last lines on stderr do not explain that."""
        self.unrecorded: Counter[str] = Counter()
        """How many requests of the server were not in the recording, by method. Untrusted texts."""
        self.unanswered_in_a_row = 0
        self.version: tuple[str, str] | None = None
        """The recorded revision and the new one, if they differ. Untrusted texts."""
        self.own_handshake = ""
        """What became of a handshake that the recording does not have, in words; empty if none was needed."""
        self._unanswered: list[str] = []
        self._unanswered_count = 0

    @property
    def is_incomplete(self) -> bool:
        """Whether some of the client's items that were to be sent were not."""
        return bool(self.unsent or self.left_out)

    def note_left_out(self, reason: str) -> None:
        """Take back that an item was sent, and count it by the reason why it was not."""
        self.sent -= 1
        self.left_out[reason] += 1

    def note_unrecorded(self, method: str) -> None:
        """Count a request of the server that was not in the recording."""
        name = method[:_MAX_NAME_CHARS]
        if name in self.unrecorded or len(self.unrecorded) < _MAX_METHODS:
            self.unrecorded[name] += 1

    def note_answer(self, _call: OpenCall) -> None:
        """Note that a call was answered."""
        self.unanswered_in_a_row = 0

    def note_failure(self, call: OpenCall, reason: str) -> None:
        """Note that the HTTP exchange of a call ended without an answer; it counts unless that is as recorded."""
        self.unanswered_in_a_row = 0
        if call.failed_ns is None and call.is_answered:
            self._note_unanswered(call, reason)

    def note_timeout(self, call: OpenCall) -> None:
        """Note that a call was given up although it was answered in the recording."""
        self.unanswered_in_a_row += 1
        self._note_unanswered(call, f"no answer within {duration(call.deadline_ns - call.sent_ns)}")

    def _note_unanswered(self, call: OpenCall, reason: str) -> None:
        self._unanswered_count += 1
        if len(self._unanswered) < _MAX_NAMED:
            name = f" {sanitise(call.name, _MAX_NAME_CHARS)}" if call.name else ""
            method = sanitise(call.method, _MAX_NAME_CHARS)
            self._unanswered.append(f"{method}{name} (frame {call.seq} of the recording): {reason}")

    def note_versions(self, recorded: str | None, new: str | None) -> None:
        """Note the revisions that the server agreed on, in the recording and now."""
        if recorded is not None and new is not None and recorded != new:
            self.version = (recorded, new)

    def note_own_handshake(self, version: str | None) -> None:
        """Note that the replay began with a handshake that the recording does not have.

        Args:
            version: the revision that the server agreed on; None if it refused.
        """
        answer = "which the server refused" if version is None else f"on revision {sanitise(version, _MAX_NAME_CHARS)}"
        self.own_handshake = f"the recording has no handshake; the replay began with one of its own, {answer}"

    def lines(self) -> list[str]:
        """Returns what the user must know, a sanitised line each."""
        lines = [self.own_handshake] if self.own_handshake else []
        if self.version is not None:
            recorded, new = (sanitise(text, _MAX_NAME_CHARS) for text in self.version)
            lines.append(f"the server agreed on revision {new}; in the recording, it was {recorded}")
        for method, count in self.unrecorded.most_common(_MAX_NAMED):
            times = "" if count == 1 else f", {count:,} times"
            answer = "an empty result" if method == "ping" else "an error"
            lines.append(f"the server sent {sanitise(method, _MAX_NAME_CHARS)}{times}, for which the recording has no "
                         f"answer; it got {answer}")  # fmt: skip
        if len(self.unrecorded) > _MAX_NAMED:
            lines.append(f"{len(self.unrecorded) - _MAX_NAMED:,} more methods of requests of the server got an error")
        lines += self._unanswered
        if self._unanswered_count > len(self._unanswered):
            lines.append(f"{count_text(self._unanswered_count - len(self._unanswered), 'more call')} got no answer")
        lines += [f"{count_text(count, 'message')} not sent: {reason}" for reason, count in self.left_out.items()]
        if self.stopped:
            lines.append(f"{count_text(self.unsent, 'message')} not sent: {self.stopped}")
        return lines
