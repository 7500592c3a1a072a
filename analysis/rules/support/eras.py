"""Facts about a message for rules about the two eras: its envelope, its error, and the versions that it names.

All functions accept arbitrary JSON values, and return None or an empty value if one does not have the expected type.
"""

from typing import Any, Final

from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.http_exchange import VERSION_FIELD
from analysis.conversation.message import Message, Request, Response
from analysis.conversation.session import PROTOCOL_VERSION
from analysis.protocol.revisions import FIRST_MODERN_RANK, Era, Span, rank_of

MAX_LISTED_VERSIONS: Final = 1000
"""The most versions of one list that are examined."""
MAX_QUOTED_TEXT_CHARS: Final = 60
"""The most characters of untrusted text in a finding's message."""


class AllEras(Span):
    """The revisions of a rule that spans both eras: the rule gets every message, and decides itself."""

    def applies_to(self, rank: int | None, era: Era | None) -> bool:  # noqa: ARG002 - always true
        """Always true: an `initialize` after a modern probe belongs to neither of the rule's revisions."""
        return True


def speaks_modern(context: MessageContext) -> bool:
    """Whether the request of a message certainly belongs to the modern era.

    If a request does not show its era, other requests of the peer do. Over HTTP the peer is uncertain, so the header
    decides. A `subscriptions/listen` without an envelope after a handshake is a mistake about the session, not a
    missing envelope.
    """
    if context.era != "modern":
        return False
    request = context.request
    if request is None or PROTOCOL_VERSION in request.meta:
        return True
    rank = rank_of(context.http.fields.get(VERSION_FIELD)) if context.http is not None else None
    if rank is not None:
        return rank >= FIRST_MODERN_RANK
    return request.method != "subscriptions/listen" or context.session.is_modern is not False


def modern_initialize_version(message: Message) -> str | None:
    """Returns the version that an `initialize` names only in `_meta`, as modern requests do, or None."""
    if not isinstance(message, Request) or message.method != "initialize":
        return None
    version: object = message.meta.get(PROTOCOL_VERSION)
    if not isinstance(version, str) or (rank_of(version) or 0) < FIRST_MODERN_RANK:
        return None
    return version if member(message.params, "protocolVersion") is None else None


def version_of(request: Request) -> str | None:
    """Returns the version that a request names (that an `initialize` requests), or None if it names none."""
    if request.method == "initialize":
        version = member(request.params, "protocolVersion")
    else:
        version = request.meta.get(PROTOCOL_VERSION)
    return version if isinstance(version, str) else None


def data_of(response: Response) -> dict[str, Any]:
    """Returns the data of an error, or an empty dict if it is not an object."""
    data = member(response.error, "data")
    return data if isinstance(data, dict) else {}


def listed_versions(response: Response) -> tuple[str, ...] | None:
    """Returns the versions that a response lists, in a `DiscoverResult` or an error's data, or None without a list."""
    versions = data_of(response).get("supported") if response.is_error else member(response.result, "supportedVersions")
    if not isinstance(versions, list):
        return None
    return tuple(
        version
        for version in versions[:MAX_LISTED_VERSIONS]
        if isinstance(version, str) and len(version) <= MAX_QUOTED_TEXT_CHARS
    )


def outcome_of(context: MessageContext) -> Outcome | None:
    """Returns the outcome of the request that a message answers, or None if it answers none."""
    return context.answered.outcome if context.answered is not None else None


def has_modern_version(versions: tuple[str, ...]) -> bool:
    """Whether a list contains a version of the modern era."""
    return any((rank_of(version) or 0) >= FIRST_MODERN_RANK for version in versions)


def result_type(response: Response) -> str | None:
    """Returns the `resultType` of a result, or None if it is missing or not a string."""
    value = member(response.result, "resultType")
    return value if isinstance(value, str) else None


def member(value: object, name: str) -> Any:
    """Returns a member of a value, or None if the value is not an object or lacks the member."""
    return value.get(name) if isinstance(value, dict) else None


def shortened(text: str) -> str:
    """Returns untrusted text, truncated to `MAX_QUOTED_TEXT_CHARS`."""
    return text if len(text) <= MAX_QUOTED_TEXT_CHARS else f"{text[: MAX_QUOTED_TEXT_CHARS - 1]}…"
