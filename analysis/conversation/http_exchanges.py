"""HttpExchanges: the HTTP exchanges of a capture, and the messages that each keeps. Memory is bounded."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import MAX_BODY_MESSAGES, HttpExchange, HttpTraffic
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session_id_use import on_request, on_response
from analysis.conversation.session_ids import FIELD
from analysis.facts import size_of

MAX_MCP_PATHS: Final = 64
"""The most paths of MCP endpoints that are kept."""
LATELY: Final = 100
"""How many of the exchanges that ended last keep their messages even if all their requests are answered. With more, the
memory of the messages would be cold by the time it is freed."""
SEEN_BYTES: Final = 32 << 20
"""The most bytes in the frames of messages that exchanges keep; exchanges that ended first are forgotten first."""
WHOLE_BYTES: Final = 1 << 20
"""How many bytes of the latest of these messages are kept parsed; the others are parsed again when needed."""
MAX_REDIRECTED_EXCHANGES: Final = 1_000
"""The most redirected exchanges whose repetition is awaited."""
MAX_REDIRECT_DELAY_NS: Final = 30_000_000_000
"""The longest time that a client takes to follow a redirect."""
_GATEWAY_PROGRAMS: Final = (
    "nginx",
    "openresty",
    "tengine",
    "haproxy",
    "envoy",
    "istio-envoy",
    "traefik",
    "cloudflare",
    "awselb",
)
"""Programs that run in front of MCP servers, as the field `Server` names them."""


class HttpExchanges(HttpTraffic):
    """The exchanges of a capture, by number."""

    def __init__(self) -> None:
        super().__init__()
        self._redirected: BoundedDict[tuple[str, str | None, int], list[HttpExchange]] = BoundedDict(
            MAX_REDIRECTED_EXCHANGES
        )
        self._count = 0
        self._recent_numbers: deque[int] = deque()
        # Exchanges keep the bytes of their messages, and the parsed values of the last ones.
        self._unpacked_messages: deque[tuple[HttpExchange, MessageContext, int]] = deque()
        self._unpacked_bytes = self._held_bytes = 0

    def add_message(self, http: HttpExchange, context: MessageContext) -> None:
        """Add a message to its exchange."""
        if context.message.sender == "client":
            if len(http.client_messages) < MAX_BODY_MESSAGES:
                http.client_messages += (context,)
                self._keep_message(http, context)
            if http.is_redirect:
                self._expect_repeat(http)  # the server answered before it had read the body
            return
        if len(http.server_messages) < MAX_BODY_MESSAGES:
            http.server_messages += (context,)
            self._keep_message(http, context)
        http.last_server_message = context
        if context.answered is not None:
            http.last_answer = context

    def _keep_message(self, http: HttpExchange, context: MessageContext) -> None:
        """Keep a message for an exchange; drop the parsed values of older messages, which keep their bytes."""
        size = size_of(context.message.frames)
        http.held_bytes += size
        self._held_bytes += size
        self._unpacked_messages.append((http, context, size))
        self._unpacked_bytes += size
        while len(self._unpacked_messages) > 1 and (
            self._unpacked_bytes > WHOLE_BYTES or not self._unpacked_messages[0][0].held_bytes
        ):
            exchange, oldest, size = self._unpacked_messages.popleft()
            self._unpacked_bytes -= size
            if exchange.held_bytes:
                oldest.pack()

    def share_messages(self, earlier: HttpExchange, http: HttpExchange) -> None:
        """Assign the client's messages of a redirected exchange to the one that repeats them; both keep their bytes."""
        http.client_messages, http.held_bytes = earlier.client_messages, earlier.held_bytes
        self._held_bytes += http.held_bytes
        for context in http.client_messages:
            context.http = http

    def _forget(self, http: HttpExchange | None) -> None:
        if http is not None:
            self._held_bytes -= http.held_bytes
            http.drop_messages()

    @property
    def forgotten_count(self) -> int:
        """How many exchanges had to be forgotten while they were open."""
        return self._open_exchanges.forgotten

    def on_record(self, members: dict[str, Any], at: RecordRef | None = None) -> HttpExchange | None:
        """Process an `exchange` record, with its number and stamp; return the exchange that it names, or None."""
        number = members.get("exchange")
        if type(number) is not int:
            return None
        exchange = self.get_or_create(number)
        has_started, is_news, key = exchange.started_ref is not None, exchange.answered_ref is None, exchange.uri_key
        exchange.update(members, at)
        if not has_started and exchange.started_ref is not None:
            on_request(self.session_ids, exchange)
        if exchange.uri_key != key and exchange.uri_key is not None and exchange.method == "GET":
            self.has_legacy = True
            self.legacy_streams.put(exchange.uri_key, exchange)
        if is_news and exchange.answered_ref is not None:
            self._on_answered(exchange)
        if "server" in exchange.unrecorded_sides and exchange.is_get_stream and exchange.session_id is None:
            self.has_unread_stream = True
        if exchange.ended_by is not None and self._open_exchanges.pop(number, None) is not None:
            self._forget(self._ended_exchanges.put(number, exchange))
            self._recent_numbers.append(number)
            if len(self._recent_numbers) > LATELY:
                earlier = self._ended_exchanges.get(self._recent_numbers.popleft())
                if earlier is not None and earlier.is_settled:
                    self._forget(earlier)
            while self._held_bytes > SEEN_BYTES and len(self._ended_exchanges) > 1:
                self._forget(self._ended_exchanges.popitem(last=False)[1])
        return exchange

    def _on_answered(self, http: HttpExchange) -> None:
        self.has_gateway = self.has_gateway or "via" in http.answer_fields or http.program in _GATEWAY_PROGRAMS
        on_response(self.session_ids, http)
        if http.is_redirect:
            self._expect_repeat(http)
        is_served = http.status is not None and 200 <= http.status < 300
        if is_served and http.method == "POST" and http.client_messages and len(self.paths) < MAX_MCP_PATHS:
            self.paths[http.path] = None

    def _expect_repeat(self, http: HttpExchange) -> None:
        """Expect the messages of a redirected exchange to be repeated."""
        if not http.client_messages or http.method != "POST":
            return
        key = http.client_fingerprint, http.fields.get(FIELD), hash(http.client_messages[0].message.frames[0].raw)
        exchanges = self._redirected.get(key)
        if exchanges is None:
            self._redirected.put(key, [http])
        elif http not in exchanges:
            exchanges.append(http)
            del exchanges[:-MAX_BODY_MESSAGES]

    @property
    def is_redirecting(self) -> bool:
        """Whether the messages of any exchange are expected to be repeated."""
        return bool(self._redirected)

    def take_redirected(self, http: HttpExchange, raw: bytes, t_ns: int) -> HttpExchange | None:
        """Remove and return the redirected exchange that an exchange with this body repeats, or return None."""
        if not self._redirected or http.client_messages or http.method != "POST":
            return None
        key = http.client_fingerprint, http.fields.get(FIELD), hash(raw)
        candidates = [
            earlier for earlier in self._redirected.get(key, ()) if _follows_redirect(earlier, http, raw, t_ns)
        ]
        if not candidates:
            return None
        # If several indistinguishable clients send the same body at once, the connection may tell them apart.
        original = next((earlier for earlier in candidates if earlier.conn == http.conn), candidates[0])
        self._redirected[key].remove(original)
        if not self._redirected[key]:
            del self._redirected[key]
        return original

    def get_or_create(self, number: int) -> HttpExchange:
        """Returns the exchange with this number, which is created if it is unknown."""
        exchange = self._open_exchanges.get(number) or self._ended_exchanges.get(number)
        if exchange is None:
            self._count += 1
            exchange = HttpExchange(self, self.loss_count, number, number, self._count)
            self._forget(self._open_exchanges.put(number, exchange))
        return exchange

    def open_exchanges(self) -> Iterator[HttpExchange]:
        """Yields the exchanges that have not ended."""
        yield from self._open_exchanges.values()

    def all_exchanges(self) -> list[HttpExchange]:
        """Returns all exchanges that are kept, in the order in which they first appeared."""
        return sorted(
            [*self._open_exchanges.values(), *self._ended_exchanges.values()], key=lambda exchange: exchange.order
        )


def _follows_redirect(earlier: HttpExchange, http: HttpExchange, raw: bytes, t_ns: int) -> bool:
    """Whether an exchange can follow a redirect, and is not another attempt at the same address."""
    if (
        earlier.answered_ref is None
        or not earlier.client_messages
        or t_ns - earlier.answered_ref.t_ns > MAX_REDIRECT_DELAY_NS
    ):
        return False
    is_there = http.path != earlier.path or earlier.location.partition("?")[0].endswith(http.path)
    return is_there and earlier.client_messages[0].message.frames[0].raw == raw
