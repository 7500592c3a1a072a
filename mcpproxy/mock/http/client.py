"""One client's conversation with a mock over HTTP, and when it continues."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from captures.errors import CaptureError
from mcpproxy.mock.conversation import Conversation
from mcpproxy.mock.http.connection import HttpRequest, HttpResponse
from mcpproxy.mock.outgoing import Outgoing

BeginConversation: TypeAlias = Callable[[int, Callable[[], None]], Conversation]
"""Begins a conversation that plays the recorded session with a number; the function that it gets makes the transport
look for what is due, and can be called in any thread."""

MAX_OPEN_REQUESTS: Final = 10_000
"""The maximum number of open requests of one client."""
MAX_TIMER_S: Final = 3600.0


class HttpClient(ABC):
    """A client: its conversation, and when it continues. Subclasses carry it over one of the two transports."""

    def __init__(self, conversation: Conversation, session: int, on_stderr: Callable[[bytes], None]) -> None:
        """Begin without open requests.

        Args:
            conversation: the conversation with the client.
            session: the number of the recorded session that it plays.
            on_stderr: called with each line that the recorded server wrote to stderr.
        """
        self.conversation = conversation
        self.session = session
        self.is_ended = False
        self._on_stderr = on_stderr
        self._timer: asyncio.TimerHandle | None = None
        self._is_proceeding = self._must_repeat = False

    # ---- what is sent

    def proceed(self) -> None:
        """Send what is due, unless the client reads too slowly; it is called again when the client has caught up.

        Raises:
            CaptureError: the recording can no longer be read, which ends the conversation.
        """
        if self._is_proceeding:  # a response that ends has the next request of its connection answered
            self._must_repeat = True
            return
        self._is_proceeding = self._must_repeat = True
        try:
            while self._must_repeat:
                self._must_repeat = False
                self._send_due()
        except CaptureError:
            self.end()
            raise
        finally:
            self._is_proceeding = False

    def _send_due(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.is_ended or self.has_slow_reader:
            return
        now_ns = time.monotonic_ns()
        outgoings = []
        for outgoing in self.conversation.due(now_ns):
            if outgoing.is_stderr:
                self._on_stderr(outgoing.raw)
            else:
                outgoings.append(outgoing)
        self.deliver(outgoings)
        next_due_ns = self.conversation.next_due_ns
        if next_due_ns is not None and not self.is_ended:
            delay_s = min(max(0, next_due_ns - time.monotonic_ns()) / 1e9, MAX_TIMER_S)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self.proceed)

    def end(self) -> None:
        """End the conversation and everything that is open."""
        self.is_ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.close_streams()

    @property
    @abstractmethod
    def has_slow_reader(self) -> bool:
        """Whether much waits for the client to read it."""

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Whether no exchange of the client is open."""

    @abstractmethod
    def deliver(self, outgoings: Sequence[Outgoing]) -> None:
        """Send what the conversation has for the client."""

    @abstractmethod
    def close_streams(self) -> None:
        """End the responses that are open."""

    @abstractmethod
    def post(self, request: HttpRequest, response: HttpResponse) -> None:
        """Take one or several messages, and answer."""
