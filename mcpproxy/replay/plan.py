"""Plan: which of the client's items are sent, over which connections."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from analysis.conversation.message import Id, Request, id_of
from analysis.playback.incoming import client_messages_in
from analysis.playback.items import Item, Member
from analysis.playback.script import Script
from analysis.protocol.methods import OPENING_METHODS
from analysis.selection import calls

_HANDSHAKE: Final = OPENING_METHODS | {"notifications/initialized"}
_REFUSED: Final = (401, 403)
_INITIALIZE: Final = "initialize"
_CANCELLED: Final = "notifications/cancelled"


class Connection(NamedTuple):
    """What is replayed over one connection."""

    numbers: Sequence[int]
    """The numbers of its items, of both sides, in order."""
    skipped: frozenset[int]
    """The client's items among them that are not sent."""


class Plan(NamedTuple):
    """What is replayed."""

    connections: tuple[Connection, ...]
    skipped_count: int
    """How many of the client's items a filter leaves out."""
    refused_count: int
    """How many are left out because they were refused, and sent again with credentials."""

    def items(self, script: Script) -> list[Item]:
        """Returns the client's items that are sent, in order, except responses."""
        numbers = (number for each in self.connections for number in each.numbers if number not in each.skipped)
        items = (script.items[number] for number in numbers)
        return [item for item in items if item.sender == "client" and item.kind != "response"]


def plan(script: Script, path: Path, only: str) -> Plan:
    """Returns what is replayed of a complete script.

    Args:
        script: the script.
        path: its capture.
        only: a filter (docs/filter.md) that the request or the response of a call must match; empty for all.

    Raises:
        CaptureError: the capture cannot be read.
        FilterError: the filter is invalid.
    """
    selected = Counter(
        call.request.seq for call in (calls(path, only) if only else ()) if call.request.sender == "client"
    )
    parts = _parts(script)
    connections, skipped_count, refused_count = [], 0, 0
    all_refused = _refused(script, [item for item in script.items if item.sender == "client"])
    for numbers in parts:
        items = [item for number in numbers if (item := script.items[number]).sender == "client"]
        refused = all_refused.intersection(item.number for item in items)
        unselected = _unselected(script, items, selected) if only else frozenset[int]()
        skipped_count += sum(script.items[number].kind != "response" for number in unselected - refused)
        refused_count += len(refused)
        if len(items) > len(refused):
            connections.append(Connection(numbers, refused | unselected))
    return Plan(tuple(connections), skipped_count, refused_count)


def _parts(script: Script) -> list[Sequence[int]]:
    """Returns the numbers of the items of each connection."""
    own: list[Sequence[int]] = []
    shared: list[int] = []
    for session in script.sessions:
        numbers = script.items_of(session)
        has_handshake = any(script.items[number].method == _INITIALIZE for number in numbers)
        if script.transport == "http" and has_handshake:
            own.append(numbers)
        else:
            # One pipe carried all sessions of stdio. Those without `initialize` are guesses, the same to the server.
            shared += numbers
    shared.sort()
    return sorted((*own, *([shared] if shared else [])), key=lambda numbers: numbers[0])


def _refused(script: Script, items: Sequence[Item]) -> frozenset[int]:
    """Returns the numbers of items that a client repeated: after a redirect, or with credentials."""
    accepted: set[tuple[str, str]] = set()
    refused = set()
    for item in reversed(items):
        if item.is_repeat:
            refused.add(item.number)
        if not item.exchange or item.kind not in ("request", "notification"):
            continue
        answer = script.http_answer(item.exchange)
        if answer is None or answer.status not in _REFUSED:
            accepted.add((item.method, item.key))
        elif (item.method, item.key) in accepted:
            refused.add(item.number)
    return frozenset(refused)


def _unselected(script: Script, items: Sequence[Item], selected: Mapping[int, int]) -> frozenset[int]:
    """Returns the numbers of the items that a filter leaves out; the handshake and notifications stay.

    Args:
        script: the script.
        items: the client's items.
        selected: how many calls of each frame the filter selects.
    """
    unselected = set()
    ids: set[Id] = set()
    for item in items:
        is_call = item.kind == "request" and item.method not in _HANDSHAKE
        if item.kind == "invalid" or (item.kind == "notification" and not _is_notification(item)):
            unselected.add(item.number)
        elif (is_call or item.kind == "batch") and not _is_selected(item, selected.get(item.seq, 0)):
            unselected.add(item.number)
            ids.update(message.id for message in client_messages_in(script.raw(item)) if isinstance(message, Request))
        elif item.method == _CANCELLED:
            for message in client_messages_in(script.raw(item)):
                params = getattr(message, "params", None)
                if isinstance(params, dict) and id_of(params.get("requestId")) in ids:
                    unselected.add(item.number)
    return frozenset(unselected)


def _is_selected(item: Item, count: int) -> bool:
    """Whether a request or all of a batch is selected, given how many calls of its frame are."""
    if item.kind == "request":
        return count > 0
    request_count = sum(member.kind == "request" for member in item.members)
    is_known = all(member.kind in ("request", "response") or _is_notification(member) for member in item.members)
    return is_known and count == request_count > 0


def _is_notification(item: Item | Member) -> bool:
    """Whether an item tells what a notification does, and is not a call without an id."""
    return item.kind == "notification" and item.method.startswith("notifications/")


def is_legacy(script: Script, numbers: Sequence[int]) -> bool:
    """Whether items, by their numbers, were recorded over the older transport."""
    exchanges = (script.items[number].exchange for number in numbers)
    answers = (script.http_answer(exchange) for exchange in exchanges if exchange)
    first = next((answer for answer in answers if answer is not None), None)
    return first is not None and first.is_legacy
