"""Bodies: which shape the params or the result of a message must have, and what is wrong with them.

Which shape depends on the method, on the revision in force and on who asked. Where the revision is not known, only what
all of those refuse that may be in force is wrong.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from analysis.conversation.message import MISSING, Notification, Response, Side
from analysis.conversation.session import Seen
from analysis.protocol.methods import METHODS, UNPREFIXED
from analysis.protocol.revisions import MODERN, Era
from analysis.shapes.declarations import Part
from analysis.shapes.forms import Problem
from analysis.shapes.validation import problems, usual_proof


def problems_of(seen: Seen) -> list[Problem]:
    """What is wrong with the body of a message, in its order; nothing for methods that the revision has not."""
    message, asked = seen.message, seen.request
    method = method_of(seen)
    if method not in METHODS:
        return []
    ranks = _ranks(method, (asked or message).sender, seen.rank, seen.era)
    if not ranks:
        return []  # refused for its direction already
    is_result = isinstance(message, Response)
    part = _part(method, is_result=is_result)
    value = seen.body.get("result" if is_result else "params", MISSING)
    params = asked.params if is_result and asked is not None else None
    found = problems(part, method, ranks[0], value, params)
    for other in ranks[1:]:
        if not found:
            break
        refused = {(one.pointer, one.kind) for one in problems(part, method, other, value, params)}
        found = [one for one in found if (one.pointer, one.kind) in refused]
    return found


def proof_for(seen: Seen, known: frozenset[str] = frozenset()) -> Callable[[Any], bool] | None:
    """What proves quickly that nothing is wrong with the body of a usual message; None where there is nothing.

    It holds for messages of the same kind, method, sender, revision and era. A body that it does not prove may well be
    right: `problems_of` tells.

    Args:
        seen: such a message.
        known: members of `_meta` that are right.
    """
    message, asked = seen.message, seen.request
    method = method_of(seen)
    ranks = _ranks(method, (asked or message).sender, seen.rank, seen.era) if method in METHODS else ()
    if len(ranks) != 1:
        return None
    return usual_proof(_part(method, is_result=isinstance(message, Response)), method, ranks[0], known)


def method_of(seen: Seen) -> str:
    """The method that decides about the shape: of the request that a result answers; empty where that is not known."""
    message = seen.message
    if isinstance(message, Notification):
        return UNPREFIXED.get(message.method, message.method)
    return seen.request.method if seen.request is not None else ""


def part_of(seen: Seen) -> Part:
    """Which body of its method a message has."""
    return _part(method_of(seen), is_result=isinstance(seen.message, Response))


def _part(method: str, *, is_result: bool) -> Part:
    if is_result:
        return "result"
    # One that carries an id by mistake is a notification all the same.
    return "notification" if method.startswith("notifications/") else "params"


@cache
def _ranks(method: str, sender: Side, rank: int | None, era: Era | None) -> tuple[int, ...]:
    """The revisions that may be in force; none where nobody but the other side may ask or tell this."""
    if sender not in METHODS[method].senders(rank):
        return ()
    if rank is not None:
        # A handshake for a revision that has none is read as the newest that has.
        return (min(rank, MODERN - 1) if era == "handshake" else rank,)
    if era == "modern":
        return (MODERN,)
    return tuple(range(MODERN if era == "handshake" else MODERN + 1))
