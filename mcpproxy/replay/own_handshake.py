"""The handshake of a replay whose recording begins after that of the client."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from analysis.conversation.http_exchange import VERSION_FIELD
from analysis.conversation.message import Request, id_of
from analysis.playback.incoming import client_messages_in
from analysis.playback.items import Item
from analysis.playback.request_fields import SESSION_FIELD
from analysis.playback.script import Script
from analysis.protocol.methods import OPENING_METHODS
from analysis.protocol.revisions import FIRST_MODERN_RANK, LAST_HANDSHAKE_REVISION, is_known, rank_of
from mcpproxy import __version__
from mcpproxy.replay.open_calls import OpenCall
from mcpproxy.replay.versions import VERSION_MEMBER

OWN_CALL: Final = -2
"""The number of the call of our own `initialize`, which no recorded call has."""
_ID: Final = "mcpproxy-replay"


class OwnHandshake:
    """A handshake that offers the server nothing."""

    def __init__(self, revision: str) -> None:
        """Prepare a handshake; nothing is sent yet."""
        self.revision = revision
        """The revision that it asks for."""
        self.is_begun = False
        """Whether `initialize` has been sent."""
        info = {"name": _ID, "version": __version__}
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
        self.request = json.dumps({"jsonrpc": "2.0", "id": _ID, "method": "initialize", "params": params}).encode()
        """The bytes of `initialize`."""

    def begin(self, now_ns: int, timeout_ns: int) -> OpenCall:
        """Returns the call of `initialize`, which the caller sends now."""
        self.is_begun = True
        call = (OWN_CALL, 0, 0, 0, id_of(_ID), None, "initialize", "", now_ns, now_ns + timeout_ns)
        return OpenCall(*call, is_answered=False)


def missing_revision(script: Script, numbers: Sequence[int]) -> str | None:
    """Returns the revision to agree on before items are sent, or None if they need no handshake of ours.

    They need one if the recording begins after that of the client, and the requests do not name their revision
    themselves.

    Args:
        script: the complete script.
        numbers: the numbers of all items of a connection, in order.
    """
    items = [item for number in numbers if (item := script.items[number]).sender == "client"]
    if any(item.method in OPENING_METHODS for item in items):
        return None
    first = next((item for item in items if item.kind in ("request", "batch")), None)
    if first is None or any(_is_modern(message) for message in client_messages_in(script.raw(first))):
        return None
    begins_late = script.ending is not None and script.ending.begins_late
    if not begins_late and all(SESSION_FIELD not in dict(item.fields or ()) for item in items):
        return None
    return next(_handshake_revisions(items), LAST_HANDSHAKE_REVISION)


def _is_modern(message: object) -> bool:
    return isinstance(message, Request) and VERSION_MEMBER in message.meta


def _handshake_revisions(items: Iterable[Item]) -> Iterator[str]:
    for item in items:
        version = dict(item.fields or ()).get(VERSION_FIELD)
        rank = rank_of(version) if version is not None and is_known(version) else None
        if version is not None and rank is not None and rank < FIRST_MODERN_RANK:
            yield version
