"""Tool definitions from list results: the size of each, its estimated cost for a model, and an identifying hash."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import orjson

from analysis.store.values import json_text

TOKEN_BYTES: Final = 4
"""The bytes of a definition per token of a model, as a rule of thumb."""


class Definition(NamedTuple):
    """One definition. All of it is untrusted."""

    name: str
    title: object
    """A title for people; a peer may send any value."""
    text: str
    """The whole definition as JSON without white space."""
    size: int
    """The bytes of `text`."""
    hash: str
    """A hash that is independent of the order of its members."""

    @property
    def tokens_estimate(self) -> int:
        """The estimated tokens that a model reads for it."""
        return tokens_estimate(self.size)


def tokens_estimate(size: int) -> int:
    """Returns the estimated tokens that a model reads for a definition of that many bytes."""
    return (size + TOKEN_BYTES // 2) // TOKEN_BYTES


def definitions_in(result: object) -> Iterator[Definition]:
    """The definitions in a result of `tools/list`, except invalid and too deeply nested ones."""
    tools = result.get("tools") if isinstance(result, dict) else None
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and isinstance(tool.get("name"), str):
            text = json_text(tool)
            if text is not None:
                yield _definition(tool, text)


def _definition(tool: dict[str, Any], text: str) -> Definition:
    try:
        canonical_json = orjson.dumps(tool, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        canonical_json = orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS)
    annotations = tool.get("annotations")
    title = tool.get("title") or (annotations.get("title") if isinstance(annotations, dict) else None)
    return Definition(
        tool["name"], title, text, len(text.encode()), blake2b(canonical_json, digest_size=16).hexdigest()
    )
