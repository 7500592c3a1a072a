"""Where in a message stand `_meta`, icons, annotations and MIME types: in items of lists, blocks, contents, peers.

Bounded: of a list only the first items are looked at, and into what is the user's own, as arguments, nobody looks.
Nearly all messages have none of these; that is told by looking for the word in the bytes of the frame.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Literal

from analysis.message import Response
from analysis.session import CLIENT_INFO, SERVER_INFO, Seen

MOST: Final = 1000
"""Items of one list that are looked at."""
TOLD: Final = 10
"""Findings of a rule about one message."""

_KEY: Final = "metas"

# Name of a member, and what it is: an object, a list of them, blocks of content, or messages with such.
_Kind = Literal["one", "items", "blocks", "messages"]
_RESULTS: Final[dict[str, tuple[tuple[str, _Kind], ...]]] = {
    "initialize": (("serverInfo", "one"),),
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
    "initialize": (("clientInfo", "one"),),
    "sampling/createMessage": (("messages", "messages"), ("tools", "items")),
}


def mentions(seen: Seen, word: bytes) -> bool:
    """Whether a word stands in the bytes of a message; one that is written with escapes is not found."""
    frames = seen.message.frames
    return word in frames[0].raw or (len(frames) > 1 and any(word in frame.raw for frame in frames))


def metas(seen: Seen) -> list[tuple[str, Any]]:
    """Every `_meta` of a message with its JSON Pointer, that of the params or the result first."""
    if not mentions(seen, b'"_meta"'):
        return []
    # Several rules ask for the same.
    kept = seen.session.memory.get(_KEY)
    if kept is not None and kept[0] is seen.message:
        found: list[tuple[str, Any]] = kept[1]
        return found
    part = part_of(seen)
    body = seen.body.get(part)
    found = []
    if isinstance(body, dict) and "_meta" in body:
        found.append((f"/{part}/_meta", body["_meta"]))
    if sum(frame.raw.count(b'"_meta"') for frame in seen.message.frames) > len(found):
        found += [(f"{pointer}/_meta", place["_meta"]) for pointer, place in places(seen) if "_meta" in place]
    seen.session.memory[_KEY] = seen.message, found
    return found


def places(seen: Seen) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects in a message that may have `_meta`, icons, annotations or a MIME type, each with its JSON Pointer."""
    part = part_of(seen)
    body = seen.body.get(part)
    if not isinstance(body, dict):
        return
    for name, kind in (_RESULTS if part == "result" else _PARAMS).get(seen.method, ()):
        value, pointer = body.get(name), f"/{part}/{name}"
        if kind == "one":
            if isinstance(value, dict):
                yield pointer, value
        elif kind == "items":
            yield from _items(pointer, value)
        elif kind == "blocks":
            yield from _blocks(pointer, value)
        else:
            for where, message in _items(pointer, value):
                yield where, message
                yield from _blocks(f"{where}/content", message.get("content"))
    meta = body.get("_meta")
    for name in (CLIENT_INFO, SERVER_INFO) if isinstance(meta, dict) else ():
        peer = meta.get(name) if isinstance(meta, dict) else None
        if isinstance(peer, dict):
            yield f"/{part}/_meta/{name.replace('/', '~1')}", peer


def part_of(seen: Seen) -> Literal["params", "result"]:
    """The member that holds what a message says."""
    return "result" if isinstance(seen.message, Response) else "params"


def icons(place: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The icons of an object, each with its place in it."""
    yield from _items("/icons", place.get("icons"))


def _items(pointer: str, value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, item in enumerate(islice(value, MOST)) if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield f"{pointer}/{index}", item


def _blocks(pointer: str, value: object, depth: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, block in [(pointer, value)] if isinstance(value, dict) else _items(pointer, value):
        yield where, block
        resource = block.get("resource")
        if isinstance(resource, dict):
            yield f"{where}/resource", resource
        if block.get("type") == "tool_result" and not depth:
            yield from _blocks(f"{where}/content", block.get("content"), 1)
