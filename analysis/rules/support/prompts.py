"""Lookups for rules about prompts: the requested prompt, and its arguments."""

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
    """Returns the requested prompt as it was listed before the request, or None if it is unknown."""
    return prompts_of(context.session).entry(params_of(request).get("name"), request, context.session)


def missing_arguments(context: MessageContext, request: Request) -> list[str]:
    """Returns the names of the arguments that a prompt requires and a request lacks."""
    prompt, arguments = prompt_of(context, request), params_of(request).get("arguments", {})
    if prompt is None or not isinstance(arguments, dict):
        return []
    return [name for name in _required_arguments(prompt.item) if name not in arguments]


def _required_arguments(item: dict[str, Any]) -> Iterator[str]:
    arguments = item.get("arguments")
    for index, name in arguments_of(item):
        if isinstance(arguments, list) and arguments[index].get("required") is True:
            yield name


def arguments_of(item: object) -> Iterator[tuple[int, str]]:
    """Yields the position and the name of each argument of a prompt."""
    arguments = member(item, "arguments")
    for index, argument in enumerate(islice(arguments, MAX_PROMPT_ARGUMENTS)) if isinstance(arguments, list) else ():
        name = member(argument, "name")
        if isinstance(name, str):
            yield index, name
