"""Bodies: finds the shape that the params or result of a message must have, and the problems in them.

The shape depends on the method, the revision in force and the requesting side. If the revision is unknown, only what
every possible revision refuses is a problem.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from analysis.conversation.call import MessageContext
from analysis.conversation.message import MISSING, Notification, Response, Side
from analysis.protocol.methods import METHODS, UNPREFIXED_NOTIFICATIONS
from analysis.protocol.revisions import FIRST_MODERN_RANK, NEWEST_RANK, Era
from analysis.shapes.body_table import Part
from analysis.shapes.shape import Problem
from analysis.shapes.validation import may_be_absent, problems, usual_proof


def problems_of(context: MessageContext) -> list[Problem]:
    """The problems in the body of a message, in the order of the body; none if the revision lacks the method."""
    message, request = context.message, context.request
    method = method_of(context)
    if method not in METHODS:
        return []
    ranks = _ranks(method, (request or message).sender, context.rank, context.era)
    if not ranks:
        return []  # the wrong direction is already reported
    is_result = isinstance(message, Response)
    part = _part(method, is_result=is_result)
    value = context.body.get("result" if is_result else "params", MISSING)
    params = request.params if is_result and request is not None else None
    body_problems = problems(part, method, ranks[0], value, params)
    for rank in ranks[1:]:
        if not body_problems:
            break
        refused_keys = {(problem.pointer, problem.kind) for problem in problems(part, method, rank, value, params)}
        body_problems = [problem for problem in body_problems if (problem.pointer, problem.kind) in refused_keys]
    return body_problems


def proof_for(context: MessageContext, valid_members: frozenset[str] = frozenset()) -> Callable[[Any], bool] | None:
    """Returns a quick proof that the body of a usual message has no problem, or None if there is no such proof.

    It works for messages of the same kind, method, sender, revision and era. A body that it does not prove may still
    be valid: `problems_of` decides.

    Args:
        context: such a message.
        valid_members: members of `_meta` known to be valid.
    """
    message, request = context.message, context.request
    method = method_of(context)
    ranks = _ranks(method, (request or message).sender, context.rank, context.era) if method in METHODS else ()
    if len(ranks) != 1:
        return None
    return usual_proof(_part(method, is_result=isinstance(message, Response)), method, ranks[0], valid_members)


def needs_no_params(context: MessageContext) -> bool:
    """Whether requests or notifications like this one have no problem if their params are absent."""
    message, method = context.message, method_of(context)
    ranks = _ranks(method, message.sender, context.rank, context.era) if method in METHODS else ()
    return len(ranks) == 1 and may_be_absent(part_of(context), method, ranks[0])


def method_of(context: MessageContext) -> str:
    """Returns the method that determines the shape (for a result, that of its request), or "" if it is unknown."""
    message = context.message
    if isinstance(message, Notification):
        return UNPREFIXED_NOTIFICATIONS.get(message.method, message.method)
    return context.request.method if context.request is not None else ""


def part_of(context: MessageContext) -> Part:
    """Returns which body of its method a message has."""
    return _part(method_of(context), is_result=isinstance(context.message, Response))


def _part(method: str, *, is_result: bool) -> Part:
    if is_result:
        return "result"
    # A notification that carries an id by mistake is still a notification.
    return "notification" if method.startswith("notifications/") else "params"


@cache
def _ranks(method: str, sender: Side, rank: int | None, era: Era | None) -> tuple[int, ...]:
    """The revisions that may be in force; none if only the other side may send this method."""
    if sender not in METHODS[method].senders(rank):
        return ()
    if rank is not None:
        # A handshake for a revision without one is read as the newest revision that has one.
        return (min(rank, FIRST_MODERN_RANK - 1) if era == "handshake" else rank,)
    if era == "modern":
        return tuple(range(FIRST_MODERN_RANK, NEWEST_RANK + 1))
    return tuple(range(FIRST_MODERN_RANK if era == "handshake" else NEWEST_RANK + 1))
