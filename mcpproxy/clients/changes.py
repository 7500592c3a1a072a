"""Plans the changes that `install` and `uninstall` make to an entry: the edits, or the reason for leaving it alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from mcpproxy.clients.client import StdioForm
from mcpproxy.clients.documents.edits import (
    AddMember,
    DropFirstItems,
    Edit,
    Item,
    MovedValue,
    Path,
    PrependItems,
    RemoveMember,
    ReplaceMember,
    SetValue,
    Value,
)
from mcpproxy.clients.listeners import Listener, NotRoutable, local_url, server_url, split_origin
from mcpproxy.clients.probe import Probe
from mcpproxy.clients.servers import Server
from mcpproxy.clients.wrapper import KEEP_SERVING_OPTION, WrappedCommand, Wrapper

Action = Literal["route", "unroute", "keep", "skip"]
"""`keep`: the entry is already as it should be. `skip`: the entry is left alone for the reason given."""

IsOwnMember = Callable[[Path], bool]
"""Returns whether mcpproxy added the member at a path."""

BRIDGE_COMMAND: Final = ("npx", "-y", "mcp-remote")
"""The command that connects a stdio client to a server with a URL, and handles its OAuth."""

_SPLIT_COMMAND_REASON: Final = "its command contains its arguments; write them into args first"


@dataclass(frozen=True, slots=True)
class Change:
    """The change to one server's entry."""

    server: Server
    action: Action
    reason: str = ""
    """Why the entry is kept or skipped; for other actions, additional information."""
    edits: list[Edit] = field(default_factory=list)
    listener: Listener | None = None
    """The listener that the entry uses before or after the change."""
    bridge_data: dict[str, Any] | None = None
    """The data that `unbridge_change` needs to restore an entry whose URL became a command."""


def route_change(server: Server, wrapper: Wrapper, *, is_known: bool) -> Change:
    """Returns the change that puts mcpproxy's command in front of a stdio server's command.

    Args:
        server: the entry.
        wrapper: composes the words of mcpproxy's command.
        is_known: whether `install` has written the file before; then it may add options to a command that it wrapped.
    """
    form = server.stdio_form
    if form is None:
        return Change(server, "skip", server.no_command_reason)
    if server.is_command_line:
        return Change(server, "skip", _SPLIT_COMMAND_REASON)
    if server.wrapped_command is not None:
        return _reroute_change(server, form, server.wrapped_command, wrapper, is_known=is_known)
    if server.client.joins_words and wrapper.unsafe_word is not None:
        title = server.client.title
        return Change(server, "skip", f"{title} passes commands to a shell, which would change {wrapper.unsafe_word}")
    words: tuple[Item, ...] = wrapper.words(server.name)
    command = (*server.place, *form.command)
    if form.args is None:
        return Change(server, "route", edits=[PrependItems(command, words)])
    moved_items = (*words[1:], MovedValue(command))
    program = SetValue(command, words[0])
    args = (*server.place, *form.args)
    if server.member_value(form.args) is not None:
        return Change(server, "route", edits=[program, PrependItems(args, moved_items)])
    return Change(server, "route", edits=[program, AddMember(command, str(form.args[-1]), moved_items)])


def _reroute_change(
    server: Server, form: StdioForm, wrapped_command: WrappedCommand, wrapper: Wrapper, *, is_known: bool
) -> Change:
    """Keep a server that is already routed; replaces the program if its installation of mcpproxy no longer exists."""
    if wrapped_command.program_exists:
        edits = _upgrade_edits(server, form, wrapped_command, wrapper) if is_known else []
        if edits:
            return Change(server, "route", "again, with new options", edits)
        if wrapper.capture is not None and wrapped_command.capture != wrapper.capture_value(server.name):
            return Change(server, "keep", "already routed, to other captures: uninstall it first")
        return Change(server, "keep", "already routed")
    if form.args is None or len(wrapper.program) > 1 or server.words[1] != "run":
        return Change(
            server, "skip", f"routed by {wrapped_command.program}, which is missing; run mcpproxy uninstall first"
        )
    return Change(server, "route", edits=[SetValue((*server.place, *form.command), wrapper.program[0])])


def _upgrade_edits(server: Server, form: StdioForm, wrapped_command: WrappedCommand, wrapper: Wrapper) -> list[Edit]:
    """Returns the edits that add options which an earlier `install` did not write.

    Returns no edits if another installation of mcpproxy wrote the command.
    """
    place = (*server.place, *(form.command if form.args is None else form.args))
    program_words = 0 if form.args is None else 1
    head = (*wrapper.program, "run")
    if server.words[: len(head)] != head:
        return []
    edits: list[Edit] = []
    new_options = [] if wrapped_command.is_passing else [KEEP_SERVING_OPTION]
    if wrapper.machine and wrapper.machine != wrapped_command.machine:
        index = wrapped_command.machine_index
        if index is None:
            new_options.append(f"--machine={wrapper.machine}")
        else:
            is_separate_word = not server.words[index].startswith("--machine=")
            edits.append(
                SetValue(
                    (*place, index - program_words),
                    wrapper.machine if is_separate_word else f"--machine={wrapper.machine}",
                )
            )
    if new_options:
        # `PrependItems` inserts only at the front, so each word before the new options is overwritten and moves back.
        new_words = (*head[program_words:], *new_options)
        edits += [SetValue((*place, position), word) for position, word in enumerate(new_words[len(new_options) :])]
        edits.append(PrependItems(place, new_words[: len(new_options)]))
    return edits


def unroute_change(server: Server, is_own_member: IsOwnMember) -> Change:
    """Returns the change that removes mcpproxy's command from the front of a stdio server's command.

    Args:
        server: the entry.
        is_own_member: returns whether mcpproxy added a member, such as the list of arguments.
    """
    wrapped_command, form = server.wrapped_command, server.stdio_form
    if wrapped_command is None or form is None:
        return Change(server, "keep", "not routed")
    if server.is_command_line:
        return Change(server, "skip", _SPLIT_COMMAND_REASON)
    if not wrapped_command.server_command:
        return Change(server, "skip", "there is no server command after mcpproxy's own arguments")
    command = (*server.place, *form.command)
    if form.args is None:
        return Change(server, "unroute", edits=[DropFirstItems(command, wrapped_command.prefix_length)])
    args = (*server.place, *form.args)
    restore_command = SetValue(command, MovedValue((*args, wrapped_command.prefix_length - 1)))
    if is_own_member(args) and len(wrapped_command.server_command) == 1:
        return Change(server, "unroute", edits=[restore_command, RemoveMember(args)])
    return Change(server, "unroute", edits=[restore_command, DropFirstItems(args, wrapped_command.prefix_length)])


def url_route_change(server: Server, url: str, member: Path, listener: Listener, probe: Probe) -> Change:
    """Returns the change that routes a server with a URL through a listener.

    Args:
        server: the entry.
        url: its URL.
        member: the path of the URL in the entry.
        listener: the listener for the URL's origin.
        probe: the server's response to a probe.
    """
    _, path_and_query = split_origin(url)
    reason = _skip_reason(server, probe)
    if reason:
        return Change(server, "skip", reason)
    edit = SetValue((*server.place, *member), local_url(listener, path_and_query))
    return Change(server, "route", edits=[edit], listener=listener)


def with_oauth_resource(change: Change, url: str, member: Path) -> Change:
    """Returns a change that also adds `oauth_resource`, with which Codex requests tokens for the server's own URL."""
    server = change.server
    place = (*server.place, *member)
    has_resource = server.entry.get("oauth_resource")
    edits = [*change.edits, *([] if has_resource else [AddMember(place, "oauth_resource", url)])]
    return Change(server, change.action, change.reason, edits, listener=change.listener)


def url_unroute_change(
    server: Server, url: str, member: Path, listener: Listener, is_own_member: IsOwnMember
) -> Change:
    """Returns the change that restores the original origin in the URL of a server."""
    try:
        edits: list[Edit] = [SetValue((*server.place, *member), server_url(listener, url))]
    except NotRoutable as error:
        return Change(server, "skip", str(error))
    resource = (*server.place, "oauth_resource")
    if is_own_member(resource) and "oauth_resource" in server.entry:
        edits.append(RemoveMember(resource))
    return Change(server, "unroute", edits=edits, listener=listener)


def bridge_change(server: Server, url: str, member: Path, wrapper: Wrapper) -> Change:
    """Returns the change that turns a server with a URL into a stdio server.

    A bridge connects to the URL, and mcpproxy records the bridge.
    """
    if "?" in url or "@" in url.partition("://")[2].partition("/")[0]:
        return Change(server, "skip", "its URL may contain a secret, which a bridge would expose in the process list")
    if has_credentials(server):
        return Change(server, "skip", "its headers would not reach the bridge")
    words = (*wrapper.words(server.name), *BRIDGE_COMMAND, url)
    form = server.client.stdio_forms[0]
    place = (*server.place, *member)
    value: Value = words if form.args is None else words[0]
    edits: list[Edit] = [ReplaceMember(place, str(form.command[-1]), value)]
    if form.args is not None:
        edits.append(AddMember(place, str(form.args[-1]), words[1:]))
    entry_type = server.entry.get("type")
    if isinstance(entry_type, str):
        edits.append(SetValue((*server.place, "type"), server.client.stdio_type))
    bridge_data = {"url": url, "member": list(member), "type": entry_type if isinstance(entry_type, str) else None}
    return Change(server, "route", "through mcp-remote", edits, bridge_data=bridge_data)


def unbridge_change(server: Server, bridge_data: dict[str, Any]) -> Change:
    """Returns the change that restores the URL of a bridged server."""
    form = server.stdio_form
    if form is None:
        return Change(server, "skip", server.no_command_reason)
    command = (*server.place, *form.command)
    edits: list[Edit] = [ReplaceMember(command, str(bridge_data["member"][-1]), bridge_data["url"])]
    if form.args is not None:
        edits.append(RemoveMember((*server.place, *form.args)))
    if bridge_data["type"] is not None:
        edits.append(SetValue((*server.place, "type"), bridge_data["type"]))
    return Change(server, "unroute", edits=edits)


def has_credentials(server: Server) -> bool:
    """Returns whether an entry sends its own credentials: headers, or a variable that contains a token."""
    names = [str(name).lower() for name, value in server.entry.items() if value]
    return any("header" in name or "bearer" in name for name in names)


def _skip_reason(server: Server, probe: Probe) -> str:
    if probe.access == "unapproved":
        return f"approve it in {server.client.title} first: its URL comes from a repository, so it was not probed"
    if probe.access == "unreachable":
        return f"cannot be reached: {probe.reason}"
    if probe.access == "redirect":
        return f"redirects to {probe.reason}; change the URL in its entry, then try again"
    if has_credentials(server) or probe.access == "open":
        return ""
    if probe.access == "denied":
        return "requires credentials that its entry does not contain; add them and try again"
    resource = " or --oauth-resource" if server.client.names_resource else ""
    return f"needs OAuth; use --bridge{resource} to record it"
