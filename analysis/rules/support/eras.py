"""Facts about a message for rules about the two eras: its envelope, its error, the versions that it names.

All functions accept any JSON in any place, and return None or nothing if a value is not what it should be.
"""

from typing import Any, Final

from analysis.conversation.exchange import Outcome
from analysis.conversation.http_exchange import VERSION_FIELD
from analysis.conversation.message import Message, Request, Response
from analysis.conversation.session import PROTOCOL_VERSION, Seen
from analysis.protocol.revisions import MODERN, Era, Span, rank_of

UNSUPPORTED_VERSION: Final = -32022
LISTED: Final = 1000
"""The most versions of one list that are examined."""
LONGEST: Final = 60
"""The most characters of untrusted text in a finding's message."""


class Everywhere(Span):
    """The revisions of a rule that looks across eras: it is asked about any message, and decides by itself."""

    def holds(self, rank: int | None, era: Era | None) -> bool:  # noqa: ARG002 - whatever they are
        """Always: an `initialize` after a modern probe is of neither revision that the rule is about."""
        return True


def speaks_modern(seen: Seen) -> bool:
    """Whether the request that is meant is surely of the modern era.

    The era is guessed from other requests of the peer if one does not say it. Over HTTP peers are guesses, so the
    header decides; and a bare `subscriptions/listen` after a handshake is a mistake about the session, not an envelope
    that is missing.
    """
    if seen.era != "modern":
        return False
    request = seen.request
    if request is None or PROTOCOL_VERSION in request.meta:
        return True
    rank = rank_of(seen.http.fields.get(VERSION_FIELD)) if seen.http is not None else None
    if rank is not None:
        return rank >= MODERN
    return request.method != "subscriptions/listen" or seen.session.is_modern is not False


def modern_initialize(message: Message) -> str | None:
    """The version that an `initialize` names only in `_meta`, as modern requests do, and not as a handshake does."""
    if not isinstance(message, Request) or message.method != "initialize":
        return None
    version: object = message.meta.get(PROTOCOL_VERSION)
    if not isinstance(version, str) or (rank_of(version) or 0) < MODERN:
        return None
    return version if member(message.params, "protocolVersion") is None else None


def version_of(request: Request) -> str | None:
    """The version that a request names for itself, or asks for in `initialize`."""
    if request.method == "initialize":
        version = member(request.params, "protocolVersion")
    else:
        version = request.meta.get(PROTOCOL_VERSION)
    return version if isinstance(version, str) else None


def code_of(response: Response) -> int | None:
    """The code of an error."""
    code = member(response.error, "code")
    return code if type(code) is int else None


def data_of(response: Response) -> dict[str, Any]:
    """The data of an error; empty if it is not an object."""
    data = member(response.error, "data")
    return data if isinstance(data, dict) else {}


def listed(response: Response) -> tuple[str, ...] | None:
    """The versions that an answer lists as supported: a `DiscoverResult`, or an error's data. None without a list."""
    versions = data_of(response).get("supported") if response.is_error else member(response.result, "supportedVersions")
    if not isinstance(versions, list):
        return None
    return tuple(version for version in versions[:LISTED] if isinstance(version, str) and len(version) <= LONGEST)


def outcome_of(seen: Seen) -> Outcome | None:
    """The outcome of the request that a message answers; None if it answers none."""
    return seen.exchange.outcome if seen.exchange is not None else None


def has_modern(versions: tuple[str, ...]) -> bool:
    """Whether a list holds a version of the modern era."""
    return any((rank_of(version) or 0) >= MODERN for version in versions)


def result_type(response: Response) -> str | None:
    """`resultType` of a result."""
    kind = member(response.result, "resultType")
    return kind if isinstance(kind, str) else None


def member(value: object, name: str) -> Any:
    """A member of a value that may be an object."""
    return value.get(name) if isinstance(value, dict) else None


def short(text: str) -> str:
    """Untrusted text, truncated."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
