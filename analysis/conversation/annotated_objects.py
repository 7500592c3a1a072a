"""Finds the objects in a message that can have `_meta`, icons, annotations or a MIME type.

These are list items, content blocks, contents and the descriptions of peers. Only the first items of a list are
examined, and user data such as arguments never is.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Literal

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Message, Response
from analysis.conversation.session import CLIENT_CAPABILITIES, CLIENT_INFO, META_PREFIX, PROTOCOL_VERSION, SERVER_INFO
from analysis.protocol.extensions import KNOWN_METHODS
from analysis.protocol.revisions import Era

MAX_EXAMINED_ITEMS: Final = 1000
"""The most items of one list that are examined."""

META_KEY_JSON: Final = b'"_meta"'
"""The key `_meta` as JSON writes it."""

_ESCAPE_START: Final = b"\\u00"
"""The start of an escape for a letter that need not be escaped."""

USUAL_META_KEYS: Final = frozenset(
    {
        *("progressToken", PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, SERVER_INFO),
        *(
            META_PREFIX + name
            for name in ("logLevel", "subscriptionId", "related-task", "model-immediate-response", "tasks")
        ),
    }
)
"""Keys of `_meta` that some revision or extension defines, and that other rules check."""

# The kind of value that a member has: an object, a list of objects, content blocks, or messages with such blocks.
_Kind = Literal["object", "items", "blocks", "messages"]
_RESULTS: Final[dict[str, tuple[tuple[str, _Kind], ...]]] = {
    "initialize": (("serverInfo", "object"),),
    "tools/list": (("tools", "items"),),
    "tools/call": (("content", "blocks"),),
    "resources/list": (("resources", "items"),),
    "resources/templates/list": (("resourceTemplates", "items"),),
    "resources/read": (("contents", "items"),),
    "prompts/list": (("prompts", "items"),),
    "prompts/get": (("messages", "messages"),),
    "roots/list": (("roots", "items"),),
    "sampling/createMessage": (("content", "blocks"),),
}
_PARAMS: Final[dict[str, tuple[tuple[str, _Kind], ...]]] = {
    "initialize": (("clientInfo", "object"),),
    "sampling/createMessage": (("messages", "messages"), ("tools", "items")),
}


def searchable_bytes(message: Message) -> bytes | None:
    """Returns the bytes in which to search for the words of a message, or None if the search would be inconclusive.

    It is inconclusive if letters are escaped. An item of a batch is not searched either: searching the whole batch for
    each of its items would take quadratic time.
    """
    frames = message.frames
    frame = frames[0]
    raw = frame.raw
    if frame.is_as_written:
        return raw
    if message.index is not None or len(frames) != 1 or (b"\\" in raw and _ESCAPE_START in raw):
        return None
    return raw


def unusual_metas(context: MessageContext, raw: bytes | None) -> list[tuple[str, Any]]:
    """Returns each `_meta` of a message that is not an object or has an unusual key, with its JSON Pointer.

    The `_meta` of the params or the result comes first. Nearly all messages have no such `_meta`.

    Args:
        context: the message.
        raw: as `searchable_bytes` returns it.
    """
    part = body_member(context)
    body = context.body.get(part)
    metas: list[tuple[str, Any]] = []
    has_own_meta = isinstance(body, dict) and "_meta" in body
    if isinstance(body, dict) and has_own_meta and not _is_usual(body["_meta"]):
        metas.append((f"/{part}/_meta", body["_meta"]))
    if raw is None or raw.count(META_KEY_JSON) > has_own_meta:
        other_metas = [
            (pointer, annotated["_meta"]) for pointer, annotated in annotated_objects(context) if "_meta" in annotated
        ]
        metas += [(f"{pointer}/_meta", meta) for pointer, meta in other_metas if not _is_usual(meta)]
    return metas


def _is_usual(meta: object) -> bool:
    return isinstance(meta, dict) and USUAL_META_KEYS.issuperset(meta)


def annotated_objects(context: MessageContext) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the objects in a message that may have `_meta`, icons, annotations or a MIME type, with JSON Pointers."""
    part = body_member(context)
    body = context.body.get(part)
    if not isinstance(body, dict):
        return
    for name, kind in (_RESULTS if part == "result" else _PARAMS).get(context.method, ()):
        value, pointer = body.get(name), f"/{part}/{name}"
        if kind == "object":
            if isinstance(value, dict):
                yield pointer, value
        elif kind == "items":
            yield from _items(pointer, value)
        elif kind == "blocks":
            yield from _blocks(pointer, value)
        else:
            for message_pointer, message in _items(pointer, value):
                yield message_pointer, message
                yield from _blocks(f"{message_pointer}/content", message.get("content"))
    meta = body.get("_meta")
    for name in (CLIENT_INFO, SERVER_INFO) if isinstance(meta, dict) else ():
        peer = meta.get(name) if isinstance(meta, dict) else None
        if isinstance(peer, dict):
            yield f"/{part}/_meta/{name.replace('/', '~1')}", peer


def may_have_annotated_objects(part: Literal["params", "result"], method: str, era: Era | None) -> bool:
    """Whether messages of a kind may have such objects: in the modern era, any message may describe its sender."""
    return method in KNOWN_METHODS and (era != "handshake" or method in (_RESULTS if part == "result" else _PARAMS))


def body_member(context: MessageContext) -> Literal["params", "result"]:
    """Returns the name of the member that contains the body of a message."""
    return "result" if isinstance(context.message, Response) else "params"


def icons(annotated: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the icons of an object, each with its JSON Pointer in the object."""
    yield from _items("/icons", annotated.get("icons"))


def _items(pointer: str, value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, item in enumerate(islice(value, MAX_EXAMINED_ITEMS)) if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield f"{pointer}/{index}", item


def _blocks(pointer: str, value: object, depth: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    for block_pointer, block in [(pointer, value)] if isinstance(value, dict) else _items(pointer, value):
        yield block_pointer, block
        resource = block.get("resource")
        if isinstance(resource, dict):
            yield f"{block_pointer}/resource", resource
        if block.get("type") == "tool_result" and not depth:
            yield from _blocks(f"{block_pointer}/content", block.get("content"), 1)
