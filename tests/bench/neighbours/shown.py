"""What peers are shown, and what is kept of their answers."""

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from orjson import loads

from captures.frame import Frame
from captures.frames import FrameAssembler
from captures.record import decode
from mcpproxy.importers.trace import Case
from tests.analysis.traces import check, grave

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

Found: TypeAlias = dict[int, str]
"""The frames of a conversation that a peer says something about, and what; -1 where it names none."""


class Unfit(Exception):
    """A peer cannot be shown a conversation; the text says why."""


class Message(NamedTuple):
    """What crossed, as a peer is shown it."""

    at: int
    """Of the frame in the conversation."""
    frame: Frame


class Row(NamedTuple):
    """A line of the table."""

    name: str
    version: str
    find: Callable[[Case, list[Message]], Found]
    """What it says of a conversation; raises `Unfit`."""
    every: int = 1
    """It is shown the conversations whose number this divides."""


def messages_of(case: Case) -> list[Message]:
    """The messages of a conversation; what a client of MCP does not take for one is among them, with its `event`."""
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
    """The message as the standard library reads it; None where it does not."""
    try:
        return json.loads(message.frame.raw)
    except (ValueError, RecursionError):
        return None


def ours(case: Case, _: list[Message]) -> Found:
    """Errors and warnings of `check`."""
    return {index: rule for rule, index in grave(check(case))}
