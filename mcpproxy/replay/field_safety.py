"""What the header fields of a POST make of its body: which call they name, and as what its bytes are read.

They come from the recording. A server that believes them could take another call from a message than the body has.
"""

import base64
import re
from collections.abc import Iterator
from typing import Any, Final

from analysis.conversation.message import Notification, Request
from analysis.playback.incoming import client_messages_in
from analysis.playback.request_fields import Fields

_is_plain_json: Final = re.compile(
    r"[ \t]*application/json[ \t]*(?:;[ \t]*(?:charset[ \t]*=[ \t]*\"?utf-?8\"?[ \t]*)?)?", re.IGNORECASE
).fullmatch
_encoded: Final = re.compile(r"=\?base64\?(.*)\?=", re.IGNORECASE).fullmatch


def is_read_as_json(fields: Fields) -> bool:
    """Whether every server reads the body as JSON in UTF-8: in other encodings, a string may end elsewhere."""
    types = _values(fields, "content-type")
    return len(types) < 2 and all(map(_is_plain_json, types))


def named_calls(fields: Fields, raw: bytes) -> Iterator[dict[str, Any]]:
    """Yields the calls that header fields name, as messages; what they leave out is that of the body.

    Args:
        fields: the fields.
        raw: the body.
    """
    methods: list[Any] = _values(fields, "mcp-method")
    names: list[Any] = _values(fields, "mcp-name")
    if not methods and not names:
        return
    messages = client_messages_in(raw)
    message = messages[0] if len(messages) == 1 else None
    if isinstance(message, Request | Notification):
        params = message.params
        methods = methods or [message.method]
        names = names or [params.get("name") if isinstance(params, dict) else None]
    yield from ({"method": method, "params": {"name": name}} for method in methods for name in names or [None])


def _values(fields: Fields, wanted: str) -> list[str]:
    return [_decoded(value.strip()) for name, value in fields if name.lower() == wanted]


def _decoded(value: str) -> str:
    """Returns what a value says that may have the form for texts that a header cannot hold."""
    match = _encoded(value)
    if match is None:
        return value
    try:
        return base64.b64decode(match[1], validate=True).decode()
    except ValueError:
        return value
