"""Lookups for rules about prompts: the requested prompt, and the arguments that it takes."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.rules.error.codes import params_of
from analysis.rules.support.eras import member
from analysis.rules.support.listings import ListedItem, prompts_of

MAX_PROMPT_ARGUMENTS: Final = 1000
"""The most arguments of one prompt that are examined."""


def prompt_of(context: MessageContext, request: Request) -> ListedItem | None:
    """Returns the requested prompt, as listed before the request, or None if unknown."""
    return prompts_of(context.session).entry(params_of(request).get("name"), request, context.session)


def missing_arguments(context: MessageContext, request: Request) -> list[str]:
    """Arguments that a prompt requires and a request lacks."""
    entry, given = prompt_of(context, request), params_of(request).get("arguments", {})
    if entry is None or not isinstance(given, dict):
        return []
    return [name for name in _required(entry.item) if name not in given]


def _required(item: dict[str, Any]) -> Iterator[str]:
    arguments = item.get("arguments")
    for place, name in arguments_of(item):
        if isinstance(arguments, list) and arguments[place].get("required") is True:
            yield name


def arguments_of(item: object) -> Iterator[tuple[int, str]]:
    """The names of a prompt's arguments, each with its position."""
    arguments = member(item, "arguments")
    for place, argument in enumerate(islice(arguments, MAX_PROMPT_ARGUMENTS)) if isinstance(arguments, list) else ():
        name = member(argument, "name")
        if isinstance(name, str):
            yield place, name
