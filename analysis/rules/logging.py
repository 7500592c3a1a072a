"""The group `logging`: log messages, their levels and their content."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Notification, Request
from analysis.conversation.session import META_PREFIX
from analysis.protocol.json_pointer import encode_step
from analysis.protocol.revisions import HANDSHAKE_ERA, MODERN_ERA
from analysis.rules.base import NOTE, RACE_NS, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, speaks_modern

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""All levels, from the least to the most severe."""
LEVEL_KEY: Final = META_PREFIX + "logLevel"
MAX_REMEMBERED_REQUESTS: Final = 10_000
"""The most unanswered requests whose levels are remembered."""
MAX_PENDING_LEVELS: Final = 100
"""The most unanswered `logging/setLevel` requests that are remembered."""
MAX_SEARCHED_VALUES: Final = 2_000
"""The most values of one message that are searched for secrets."""
MAX_SEARCHED_CHARS: Final = 64 << 10
"""The most characters of one value that are searched for secrets."""

_LOG_MESSAGE: Final = "notifications/message"
_SET_LEVEL: Final = "logging/setLevel"
_RANKS: Final = {level: rank for rank, level in enumerate(LEVELS)}
_MAX_MESSAGES_PER_SECOND: Final = 100
_SECOND_NS: Final = 1_000_000_000
_SECRET_NAMES: Final = frozenset({"password", "secret", "token", "api_key", "authorization"})
_search_secret: Final = re.compile(
    r"\b[Bb]earer [A-Za-z0-9._~+/=-]{20}"
    r"|\bsk-[A-Za-z0-9_-]{16}"
    r"|\bghp_[A-Za-z0-9]{20}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8}"
).search
_is_masked: Final = re.compile(r"(?i)[*•.x\s]*|.*(?:redacted|hidden|masked).*|[<\[].*[>\]]").fullmatch


class _LogLevel:
    """The level that a client has set."""

    def __init__(self) -> None:
        self.rank: int | None = None
        """Rank of the level in force; None before the client has set one."""
        self.t_ns = 0
        self.seq = 0
        """Number of the response that confirmed the level."""
        self.exchange_number: int | None = None
        self.pending_ranks: dict[int, int | None] = {}
        """Ranks of the levels in unanswered requests, which may already apply, by the number of the request."""


class BelowLevel(Rule):
    """A log message is less severe than the level that the client has set.

    **Why it matters.** The client asked not to get such messages. They flood hosts that show logs.

    **On the wire.** `> {"id":2,"method":"logging/setLevel","params":{"level":"error"}}`, `< {"id":2,"result":{}}`, and
    then `< {"method":"notifications/message","params":{"level":"debug","data":"…"}}`

    **Instead.** For each session, remember the last level that was set, and send no messages below it.
    """

    id = "logging/below-level"
    needs_session = True
    who = "server"
    versions = HANDSHAKE_ERA
    level = WARNING
    methods = frozenset({_SET_LEVEL, _LOG_MESSAGE})
    source = "2024-11-05 server/utilities/logging"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        log_level: _LogLevel = self.state_for(context.session, _LogLevel)
        if len(log_level.pending_ranks) < MAX_PENDING_LEVELS:
            log_level.pending_ranks[context.message.seq] = _rank(member(member(context.body, "params"), "level"))
        return ()

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        log_level: _LogLevel = self.state_for(context.session, _LogLevel)
        if context.request is None:
            return ()
        rank = log_level.pending_ranks.pop(context.request.seq, None)
        if not getattr(context.message, "is_error", True):
            log_level.rank, log_level.t_ns, log_level.seq = rank, context.message.t_ns, context.message.seq
            log_level.exchange_number = context.message.frames[0].exchange
        return ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        log_level: _LogLevel | None = context.session.memory.get(self.id)
        rank = _level_rank(context)
        if (
            log_level is None
            or log_level.rank is None
            or rank is None
            or rank >= log_level.rank
            or context.message.sender != "server"
        ):
            return ()
        if any(pending_rank is None or rank >= pending_rank for pending_rank in log_level.pending_ranks.values()):
            return ()
        if (
            context.http is not None
            and context.http.number != log_level.exchange_number
            and context.message.t_ns <= log_level.t_ns + RACE_NS
        ):
            return ()
        text = f"a log message has the level {LEVELS[rank]}, although {LEVELS[log_level.rank]} was set"
        return [self.finding(context, text, pointer="/params/level", related=(log_level.seq,))]


class _RequestedLevelRule(Rule):
    """The base class of the rules about the log level that each request asks for."""

    who = "server"
    versions = MODERN_ERA
    era = "modern"
    source = "2026-07-28 server/utilities/logging"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if hook == "notification":
            return method == _LOG_MESSAGE and like.message.sender == "server"
        # Over HTTP, a log message comes in the exchange of its request, so requests need not be remembered.
        return like.message.sender == ("client" if hook == "request" else "server") and like.http is None

    def required_word_for(self, hook: str, _method: str, _like: MessageContext) -> bytes:
        return b"logLevel" if hook == "request" else b""

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        if isinstance(context.message, Request) and LEVEL_KEY in context.message.meta:
            levels_by_request: dict[int, object] = self.state_for(context.session, dict)
            if len(levels_by_request) < MAX_REMEMBERED_REQUESTS:
                levels_by_request[context.message.seq] = context.message.meta[LEVEL_KEY]
        return ()

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        levels_by_request: dict[int, object] | None = context.session.memory.get(self.id)
        if levels_by_request and context.request is not None:
            levels_by_request.pop(context.request.seq, None)
        return ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        if not speaks_modern(context) or not isinstance(context.message, Notification):
            return ()
        if context.http is not None:
            requests = [
                sent_context.message
                for sent_context in context.http.client_messages
                if isinstance(sent_context.message, Request)
            ]
            if not requests:
                return ()
            return self.check_level(
                context, [request.meta[LEVEL_KEY] for request in requests if LEVEL_KEY in request.meta], requests[0].seq
            )
        session = context.session
        if not session.observed_start or session.unjudged.get("client") is not None:
            return ()  # an unrecorded request may have asked for log messages
        levels_by_request: dict[int, object] | None = session.memory.get(self.id)
        if levels_by_request and len(levels_by_request) >= MAX_REMEMBERED_REQUESTS:
            return ()
        return self.check_level(context, list(levels_by_request.values()) if levels_by_request else [], None)

    def check_level(self, context: MessageContext, levels: list[object], request_seq: int | None) -> Iterator[Finding]:
        """Check a log message.

        Args:
            context: the log message.
            levels: the levels that the requests it may belong to ask for.
            request_seq: number of the request that it belongs to, if that is certain.
        """
        raise NotImplementedError


class NotRequested(_RequestedLevelRule):
    """A server sends a log message although no open request asks for any.

    **Why it matters.** Since 2026-07-28 each request says whether its client wants log messages. Clients that do not
    want them may be unable to handle them, and may drop the connection.

    **On the wire.** `> {"id":3,"method":"tools/call",…}` without `io.modelcontextprotocol/logLevel` in its `_meta`,
    `< {"method":"notifications/message","params":{"level":"info","data":"…"}}`

    **Instead.** Send log messages for requests that ask for them; write all others to stderr.
    """

    id = "logging/not-requested"

    def check_level(self, context: MessageContext, levels: list[object], request_seq: int | None) -> Iterator[Finding]:
        if not levels:
            text = "no open request asks for log messages"
            yield self.finding(context, text, related=() if request_seq is None else (request_seq,))


class BelowRequested(_RequestedLevelRule):
    """A log message is less severe than its request asks for.

    **Why it matters.** The client asked not to get such messages.

    **On the wire.** `> …"_meta":{"io.modelcontextprotocol/logLevel":"error",…}`,
    `< {"method":"notifications/message","params":{"level":"debug","data":"…"}}`

    **Instead.** Send no messages below the level of the request that they belong to.
    """

    id = "logging/below-requested"
    level = WARNING

    def check_level(self, context: MessageContext, levels: list[object], request_seq: int | None) -> Iterator[Finding]:
        rank, ranks = _level_rank(context), [_rank(level) for level in levels]
        known_ranks = [level_rank for level_rank in ranks if level_rank is not None]
        if rank is None or not known_ranks or len(known_ranks) < len(ranks) or rank >= min(known_ranks):
            return
        text = f"a log message has the level {LEVELS[rank]}, although {LEVELS[min(known_ranks)]} was requested"
        yield self.finding(
            context, text, pointer="/params/level", related=() if request_seq is None else (request_seq,)
        )


class Secret(Rule):
    """A log message contains what looks like a credential.

    **Why it matters.** Logs are shown, stored, sent to models, and forwarded to support staff. A credential in a log is
    compromised.

    **On the wire.** `< {"method":"notifications/message","params":{"level":"debug","data":{"token":"…"}}}`

    **Instead.** Log that a token was used, never its value; revoke the exposed token.
    """

    id = "logging/secret"
    who = "server"
    level = WARNING
    impact = Impact.SECURITY
    methods = frozenset({_LOG_MESSAGE})
    sender = "server"
    source = "2024-11-05 server/utilities/logging"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        pointer = _secret_pointer(member(member(context.body, "params"), "data"))
        if pointer is None:
            return ()
        return [
            self.finding(
                context, "a log message contains what looks like a credential", pointer=f"/params/data{pointer}"
            )
        ]


class InvalidLevelAccepted(Rule):
    """A server accepts a level that does not exist.

    **Why it matters.** The client believes that it has set a level, but which messages it gets is undefined.

    **On the wire.** `> {"id":2,"method":"logging/setLevel","params":{"level":"verbose"}}` `< {"id":2,"result":{}}`

    **Instead.** Refuse it with -32602. MCP uses the levels of syslog: debug, info, notice, warning, error, critical,
    alert, emergency.
    """

    id = "logging/invalid-level-accepted"
    who = "server"
    level = WARNING
    impact = Impact.WRONG
    source = "2024-11-05 server/utilities/logging; 2026-07-28 server/utilities/logging"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return like.message.sender == "server" and (like.era == "modern" or method == _SET_LEVEL)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None:
            return ()
        if context.era == "modern":
            if LEVEL_KEY not in request.meta or request.meta[LEVEL_KEY] in LEVELS:
                return ()
        else:
            params = request.params
            if not isinstance(params, dict) or "level" not in params or params["level"] in LEVELS:
                return ()
        text = "a level that does not exist is accepted"
        return [self.finding(context, text, pointer="/result", related=(request.seq,))]


class Flood(Rule):
    """A server sends more than a hundred log messages within a second.

    **Why it matters.** Log messages share the connection with responses, which queue behind them.

    **On the wire.** `< {"method":"notifications/message",…}` 101 times within a second

    **Instead.** Log less, or put several lines into one message; write logs for developers to stderr.
    """

    id = "logging/flood"
    who = "server"
    level = NOTE
    impact = Impact.COST
    needs_time = True
    once = True
    methods = frozenset({_LOG_MESSAGE})
    sender = "server"
    source = "2024-11-05 server/utilities/logging"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        recent_ns: deque[int] = self.state_for(context.session, lambda: deque(maxlen=_MAX_MESSAGES_PER_SECOND))
        t_ns = context.message.t_ns
        first_ns = recent_ns[0] if len(recent_ns) == _MAX_MESSAGES_PER_SECOND else None
        recent_ns.append(t_ns)
        if first_ns is None or t_ns - first_ns >= _SECOND_NS:
            return ()
        recent_ns.clear()
        return [self.finding(context, f"more than {_MAX_MESSAGES_PER_SECOND} log messages within a second")]


# ---- shared by the rules


def _rank(level: object) -> int | None:
    return _RANKS.get(level) if isinstance(level, str) else None


def _level_rank(context: MessageContext) -> int | None:
    return _rank(member(member(context.body, "params"), "level"))


def _secret_pointer(data: Any) -> str | None:
    """Returns the JSON Pointer to the first value in `data` that looks like a credential, or None if there is none."""
    stack: list[tuple[Any, str]] = [(data, "")]
    for _ in range(MAX_SEARCHED_VALUES):
        if not stack:
            return None
        value, pointer = stack.pop()
        if isinstance(value, str):
            if _search_secret(value, 0, MAX_SEARCHED_CHARS):
                return pointer
        elif isinstance(value, dict):
            for name, item in value.items():
                item_pointer = f"{pointer}/{encode_step(name, 60)}"
                if (
                    isinstance(item, str)
                    and name.lower() in _SECRET_NAMES
                    and not _is_masked(item[:MAX_SEARCHED_CHARS])
                ):
                    return item_pointer
                stack.append((item, item_pointer))
        elif isinstance(value, list):
            stack += [(item, f"{pointer}/{index}") for index, item in enumerate(value[:MAX_SEARCHED_VALUES])]
    return None
