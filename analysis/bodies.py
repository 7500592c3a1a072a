"""Bodies: which shape the params or the result of a message must have, and what is wrong with them.

Which shape depends on the method, on the revision in force and on who asked. Where the revision is not known, only what
all of those refuse that may be in force is wrong.
"""

from typing import Any

from analysis.forms import Problem
from analysis.message import Notification, Request, Response
from analysis.methods import METHODS, UNPREFIXED
from analysis.revisions import MODERN, Era
from analysis.session import Seen
from analysis.shapes import Part, problems


def problems_of(seen: Seen) -> list[Problem]:
    """What is wrong with the body of a message, in its order; nothing for methods that the revision has not."""
    message, asked, rank = seen.message, seen.request, seen.rank
    known = METHODS.get(method_of(seen))
    if known is None or not isinstance(message, Request | Notification | Response):
        return []
    if (asked or message).sender not in known.senders(rank):
        return []  # refused for its direction already
    part = part_of(seen)
    is_result = isinstance(message, Response)
    value: Any = message.result if isinstance(message, Response) else message.params
    params: Any = asked.params if is_result and asked is not None else None
    first, *rest = _ranks(rank, seen.era)
    found = problems(part, known.name, first, value, params)
    for other in rest:
        if not found:
            break
        refused = {(one.pointer, one.kind) for one in problems(part, known.name, other, value, params)}
        found = [one for one in found if (one.pointer, one.kind) in refused]
    return found


def method_of(seen: Seen) -> str:
    """The method that decides about the shape: of the request that a result answers; empty where that is not known."""
    message = seen.message
    if isinstance(message, Notification):
        return UNPREFIXED.get(message.method, message.method)
    return seen.request.method if seen.request is not None else ""


def part_of(seen: Seen) -> Part:
    """Which body of its method a message has; a notification that carries an id by mistake is one all the same."""
    if isinstance(seen.message, Response):
        return "result"
    return "notification" if method_of(seen).startswith("notifications/") else "params"


def _ranks(rank: int | None, era: Era | None) -> tuple[int, ...]:
    """The revisions that may be in force."""
    if rank is not None:
        # A handshake for a revision that has none is read as the newest that has.
        return (min(rank, MODERN - 1) if era == "handshake" else rank,)
    if era == "modern":
        return (MODERN,)
    return tuple(range(MODERN if era == "handshake" else MODERN + 1))
