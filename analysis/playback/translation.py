"""Translation: a recorded message with the ids and progress tokens of today in place of those of the recording.

What a client chose is translated; what a server chose (cursors, task ids, event ids) is repeated. If nothing changes,
the bytes are the recorded ones; otherwise only whitespace between the members of the objects that contain an id does.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Substitutes(NamedTuple):
    """What to put in place of recorded values; keys and values are JSON tokens as bytes, such as `b'7'` or `b'"a"'`."""

    ids: Mapping[bytes, bytes]
    """By the recorded id of a request of the *other* side, the id of today: for responses, cancellations, the ids of
    subscriptions (`io.modelcontextprotocol/subscriptionId`) and related requests."""
    tokens: Mapping[bytes, bytes]
    """By the recorded progress token, the one of today."""


def translated(raw: bytes, substitutes: Substitutes) -> bytes:
    """Returns a recorded message, request, response, notification or batch, translated; what is not JSON stays.

    Tokens are equal if their JSON type and value are: `1` and `1.0` are, `1` and `"1"` are not.
    """
    raise NotImplementedError
