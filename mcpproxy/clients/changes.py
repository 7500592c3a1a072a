"""What `install` and `uninstall` do to an entry: the edits, or why it is left alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from mcpproxy.clients.client import StdioForm
from mcpproxy.clients.documents.edits import (
    AddList,
    DropHead,
    Edit,
    Item,
    Moved,
    Prepend,
    RemoveMember,
    SetValue,
)
from mcpproxy.clients.servers import Server
from mcpproxy.clients.wrapper import Routed, Wrapper

Action = Literal["route", "unroute", "keep", "skip"]
"""`keep`: it is as it should be already. `skip`: it is left alone, for a reason."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one server."""

    server: Server
    action: Action
    reason: str = ""
    """Why it is kept or skipped."""
    edits: list[Edit] = field(default_factory=list)
    adds_args: bool = False
    """Whether the entry gets a list of arguments that it did not have."""


def route(server: Server, wrapper: Wrapper) -> Change:
    """Put our words in front of a stdio server's command."""
    form = server.form
    if form is None:
        return Change(server, "skip", _why_not(server))
    if server.routed is not None:
        return _rerouted(server, form, server.routed, wrapper)
    if server.client.joins_words and wrapper.unsafe is not None:
        return Change(
            server, "skip", f"{server.client.title} passes commands to a shell, which would change {wrapper.unsafe}"
        )
    words: tuple[Item, ...] = wrapper.words(server.name)
    command = (*server.place, *form.command)
    if form.args is None:
        return Change(server, "route", edits=[Prepend(command, words)])
    program, behind = str(words[0]), (*words[1:], Moved(command))
    args = (*server.place, *form.args)
    if _has(server, form.args[-1], form.args[:-1]):
        return Change(server, "route", edits=[SetValue(command, program), Prepend(args, behind)])
    added = AddList(command, str(form.args[-1]), behind)
    return Change(server, "route", edits=[SetValue(command, program), added], adds_args=True)


def _rerouted(server: Server, form: StdioForm, wrapped: Routed, wrapper: Wrapper) -> Change:
    """Keep a server that is routed, by whichever installation; of one that is gone, name ours instead."""
    if wrapped.is_there:
        return Change(server, "keep", "routed already")
    if form.args is None or len(wrapper.program) > 1 or server.words[1] != "run":
        return Change(server, "skip", f"routed by {wrapped.program}, which is gone; uninstall it first")
    return Change(server, "route", edits=[SetValue((*server.place, *form.command), wrapper.program[0])])


def unroute(server: Server, *, args_added: bool) -> Change:
    """Take our words away from a stdio server's command.

    Args:
        server: the entry.
        args_added: whether its list of arguments is ours.
    """
    wrapped, form = server.routed, server.form
    if wrapped is None or form is None:
        return Change(server, "keep", "not routed")
    if not wrapped.inner:
        return Change(server, "skip", "there is no command behind the words of mcpproxy")
    command = (*server.place, *form.command)
    if form.args is None:
        return Change(server, "unroute", edits=[DropHead(command, wrapped.count)])
    args = (*server.place, *form.args)
    back = SetValue(command, Moved((*args, wrapped.count - 1)))
    if args_added and len(wrapped.inner) == 1:
        return Change(server, "unroute", edits=[back, RemoveMember(args)])
    return Change(server, "unroute", edits=[back, DropHead(args, wrapped.count)])


def _has(server: Server, member: str | int, parent: tuple[str | int, ...]) -> bool:
    inside = server.entry
    for key in parent:
        inside = inside[str(key)]
    return member in inside


def _why_not(server: Server) -> str:
    if server.url is not None:
        return "has a URL"
    for form in server.client.stdio:
        if _has_command(server, form.command):
            return "its command or arguments are not written as words"
    return "has neither a command nor a URL"


def _has_command(server: Server, place: tuple[str | int, ...]) -> bool:
    return bool(server.entry.get(str(place[0])))
