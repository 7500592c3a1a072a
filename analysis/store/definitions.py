"""Definitions of tools as lists tell them: how large each is, what a model may pay for it, and a hash to know it by."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import orjson

from analysis.store.values import json_text

TOKEN_BYTES: Final = 4
"""Bytes of a definition that a model reads as one token, by rule of thumb."""


class Definition(NamedTuple):
    """One definition. All of it is foreign."""

    name: str
    title: object
    """For people; anything at all where somebody sends that."""
    text: str
    """All of it as JSON without blanks."""
    size: int
    """Bytes of that."""
    hash: str
    """The same in whatever order its members come."""

    @property
    def tokens_estimate(self) -> int:
        """What a model may read for it: an estimate."""
        return (self.size + TOKEN_BYTES // 2) // TOKEN_BYTES


def definitions_in(result: object) -> Iterator[Definition]:
    """The definitions in a result of `tools/list`, without what is none, and without what is nested too deeply."""
    tools = result.get("tools") if isinstance(result, dict) else None
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and isinstance(tool.get("name"), str):
            text = json_text(tool)
            if text is not None:
                yield _definition(tool, text)


def _definition(tool: dict[str, Any], text: str) -> Definition:
    try:
        canonical = orjson.dumps(tool, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        canonical = orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS)
    annotations = tool.get("annotations")
    title = tool.get("title") or (annotations.get("title") if isinstance(annotations, dict) else None)
    return Definition(tool["name"], title, text, len(text.encode()), blake2b(canonical, digest_size=16).hexdigest())
