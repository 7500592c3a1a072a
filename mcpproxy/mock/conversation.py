"""Conversation: what a mock says to one client, whatever the transport (sans-IO).

A request is answered by everything that the server sent for it in the recording, in the recorded order: progress, log
messages, requests to the client, and the response. An item waits for what the client had sent before it in the
recording: always for the answer to a server request; for other items at most `PATIENCE_NS`, because another client may
not send them at all. Items that belong to no request follow what the client had sent last before them.
"""

from typing import Final

from analysis.playback.script import Script
from mcpproxy.mock.options import MockOptions
from mcpproxy.mock.outgoing import Outgoing

PATIENCE_NS: Final = 100_000_000
"""How long an answer waits for a message that the client had sent before it in the recording (concurrent calls)."""


class Conversation:
    """One client's conversation. Not safe for several threads; times are those of any monotonic clock."""

    def __init__(self, script: Script, session: int, options: MockOptions) -> None:
        """Begin a conversation that plays one recorded session."""
        raise NotImplementedError

    def receive(self, raw: bytes, now_ns: int) -> list[int]:
        """Take a unit of bytes from the client: a message, a batch, or something else.

        Returns:
            A number for each request in it, from 0 over the whole conversation, by which `Outgoing.request` names it.
        """
        raise NotImplementedError

    def abandon(self, request: int) -> None:
        """Note that the client closed the HTTP exchange of a request."""
        raise NotImplementedError

    def due(self, now_ns: int) -> list[Outgoing]:
        """Returns what is to be sent now, in order."""
        raise NotImplementedError

    @property
    def next_due_ns(self) -> int | None:
        """When something will be due next; None if that depends on the client, or on the growth of the script."""
        raise NotImplementedError
