"""What peers are shown, and the parts of their reports that are kept."""

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from orjson import loads

from captures.frame import Frame
from captures.frames import FrameAssembler
from captures.record import decode
from mcpproxy.importers.case import Case
from tests.analysis.traces import check, grave

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

Found: TypeAlias = dict[int, str]
"""The frames of a conversation that a peer reports, with its words; -1 for a report that names no frame."""


class Unfit(Exception):
    """A peer cannot be shown a conversation; the text says why."""


class Message(NamedTuple):
    """A message as a peer is shown it."""

    at: int
    """The index of the frame in the conversation."""
    frame: Frame


class Row(NamedTuple):
    """A line of the table."""

    name: str
    version: str
    find: Callable[[Case, list[Message]], Found]
    """Returns what it reports about a conversation; raises `Unfit`."""
    every: int = 1
    """It is shown only every `every`th conversation."""


def messages_of(case: Case) -> list[Message]:
    """The messages of a conversation, including events that an MCP client does not treat as messages (see `event`)."""
    assembler, indexes = FrameAssembler(), dict[int, int]()
    found = []
    for index, line in case.records():
        record = decode(line.rstrip(b"\n"), 0, loads)
        assert record is not None
        if index is not None:
            indexes[record.seq] = index
        found.append(assembler.feed(record))
    found += assembler.finish()
    return [Message(indexes[item.seq], item) for item in found if isinstance(item, Frame)]


def parsed(message: Message) -> Any:
    """The message as the standard library parses it; None if it cannot."""
    try:
        return json.loads(message.frame.raw)
    except (ValueError, RecursionError):
        return None


def ours(case: Case, _: list[Message]) -> Found:
    """Errors and warnings of `check`."""
    return {index: rule for rule, index in grave(check(case))}
