"""Which recorded requests have the same arguments, where only method and name must be equal."""

from collections import deque
from typing import Final

from analysis.conversation.message import Request
from analysis.facts import target_name
from analysis.playback.incoming import client_messages_in, params_of
from analysis.playback.matching import Matching
from analysis.playback.script import Script
from mcpproxy.mock.recorded_calls import RecordedCall, calls_in, is_refused

MAX_COMPARED: Final = 1_000
"""How many recorded requests with one key are compared."""
MAX_COMPARED_BYTES: Final = 16 << 20


class _Compared:
    """The recorded requests with one key, as far as they were compared."""

    def __init__(self) -> None:
        self.position = self.call_count = self.byte_count = 0
        self.calls: dict[str, deque[RecordedCall]] = {}
        """By their arguments, those that were not used, and the last one."""

    @property
    def is_full(self) -> bool:
        """Whether no more are compared."""
        return self.call_count >= MAX_COMPARED or self.byte_count >= MAX_COMPARED_BYTES


class EqualCalls:
    """Finds the requests of a recorded session that have the same arguments as one of the client."""

    def __init__(self, script: Script, session: int, ignored_places: tuple[str, ...]) -> None:
        """Begin with nothing compared."""
        self._script, self._session = script, session
        self._matching = Matching("arguments", ignored_places)
        self._by_key: dict[str, _Compared] = {}

    def key_of(self, message: Request) -> str:
        """Returns what is equal in requests with the same arguments."""
        try:
            return self._matching.key_of(message.method, target_name(message.params) or "", params_of(message))
        except RecursionError:
            return ""

    def take(self, key: str, arguments: str) -> RecordedCall | None:
        """Use the next request with a key and arguments, or the last one again; returns None if there is none.

        Args:
            key: the key under which the script lists the request.
            arguments: what `key_of` returned.
        """
        self._compare(key)
        calls = self._by_key[key].calls.get(arguments)
        if not calls:
            return None
        while len(calls) > 1 and is_refused(self._script, calls[0]):
            calls.popleft()
        return calls.popleft() if len(calls) > 1 else calls[0]

    def may_grow(self, key: str) -> bool:
        """Whether a request with the arguments may still be read."""
        return not self._script.is_complete and not self._by_key[key].is_full

    def _compare(self, key: str) -> None:
        compared = self._by_key.setdefault(key, _Compared())
        numbers = self._script.requests(self._session, key)
        while compared.position < len(numbers) and not compared.is_full:
            number = numbers[compared.position]
            is_double = compared.position > 0 and numbers[compared.position - 1] == number
            compared.position += 1
            if is_double:
                continue
            item = self._script.items[number]
            raw = self._script.raw(item)
            compared.byte_count += len(raw)
            messages = client_messages_in(raw)
            for call in calls_in(item):
                message = messages[call.position or 0] if (call.position or 0) < len(messages) else None
                if isinstance(message, Request):
                    compared.call_count += 1
                    compared.calls.setdefault(self.key_of(message), deque()).append(call)
