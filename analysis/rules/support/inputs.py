"""Input requests, which a server puts into an interim result. In older revisions, servers send requests instead."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, TypeAlias

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Message
from analysis.protocol.json_pointer import encode_step
from analysis.protocol.result_types import INTERIM_RESULT_METHODS
from analysis.rules.support.eras import member

MAX_INPUT_ENTRIES: Final = 100
"""The most input requests that are examined in one result."""
INTERIM_METHODS: Final = INTERIM_RESULT_METHODS
"""Methods of requests that may be answered with an interim result."""

InputRequest: TypeAlias = tuple[str, str, dict[str, Any]]
"""JSON Pointer, method and params."""

_MEMORY_KEY: Final = "input requests"


def input_requests(context: MessageContext) -> list[InputRequest]:
    """Returns the valid entries of `inputRequests` in a result."""
    memory, message = context.session.memory, context.message
    cached: tuple[Message, list[InputRequest]] | None = memory.get(_MEMORY_KEY)
    if cached is None or cached[0] is not message:
        # About thirty rules read the same entries, one after the other.
        cached = memory[_MEMORY_KEY] = message, list(_entries(context))
    return cached[1]


def _entries(context: MessageContext) -> Iterator[InputRequest]:
    entries = member(context.body.get("result"), "inputRequests")
    if not isinstance(entries, dict):
        return
    for key, value in islice(entries.items(), MAX_INPUT_ENTRIES):
        method, params = member(value, "method"), member(value, "params")
        if isinstance(method, str):
            pointer = f"/result/inputRequests/{encode_step(key, MAX_INPUT_ENTRIES)}"
            yield pointer, method, params if isinstance(params, dict) else {}
