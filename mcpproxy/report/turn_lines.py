"""The lines of `mcpproxy show --turns`, each of which names the turn of the calls below it."""

from collections.abc import Iterator
from typing import Final

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.conversation.turns import TurnKey, key_of
from mcpproxy.wording.records import Remark
from mcpproxy.wording.turns import short_id, turn_title

MAX_KNOWN_TURNS: Final = 10_000
"""The most turns that are remembered, so that a line can say that one is continued."""


class TurnLines:
    """The turns of one capture that have a line."""

    def __init__(self) -> None:
        """Start without turns."""
        self._known_turns: BoundedDict[TurnKey, None] = BoundedDict(MAX_KNOWN_TURNS)
        self._last_turn: TurnKey | None = None
        self._has_lines = False

    def on_message(self, context: MessageContext) -> Iterator[Remark]:
        """Records a message; yields the line above it if it is a call of another turn than the last one, or of none."""
        message, call = context.message, context.call
        if not isinstance(message, Request) or message.sender != "client" or call is None:
            return
        turn = key_of(call.client_ids)
        # Other requests, such as a list of tools, are not what a prompt asked for.
        if (turn == self._last_turn and self._has_lines) or (turn is None and message.method != "tools/call"):
            return
        self._last_turn, self._has_lines = turn, True
        if turn is None:
            yield Remark("·", "no turn")
            return
        words = "(continued)" if turn in self._known_turns else ""
        self._known_turns.put(turn, None)
        conversation = f"conversation {short_id(turn.session)}" if turn.session else ""
        yield Remark("·", "  ".join(filter(None, (turn_title(turn), conversation, words))))
