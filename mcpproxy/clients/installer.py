"""Routes servers through mcpproxy and restores them: plans the changes to clients' files, and writes the files.

The changes to a file are planned from its content, and planned again from its content at the moment of writing. So
edits that a client makes in between survive, and two concurrent calls have the same result as two consecutive ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as altered
from pathlib import Path
from typing import Final, Literal

from captures.paths import safe_name
from mcpproxy.clients import folder_lock
from mcpproxy.clients.changes import (
    Change,
    bridge_change,
    has_credentials,
    route_change,
    unbridge_change,
    unroute_change,
    url_route_change,
    url_unroute_change,
    with_oauth_resource,
)
from mcpproxy.clients.client import Client, ConfigFile
from mcpproxy.clients.documents.document import Document, read_file
from mcpproxy.clients.documents.edits import AddMember, ConfigError
from mcpproxy.clients.documents.edits import Path as Place
from mcpproxy.clients.listeners import Listener, NotRoutable, listener_of, split_origin
from mcpproxy.clients.probe import Probe
from mcpproxy.clients.replace import FileChanged, NotWritable, replace_content
from mcpproxy.clients.servers import ClientInventory, Server, servers_in
from mcpproxy.clients.state import FileRecord, InstallState
from mcpproxy.clients.wrapper import Wrapper

OAuthRoute = Literal["bridge", "oauth-resource"]
"""How to record a server that needs OAuth: through mcp-remote, which `run` starts, or by naming the resource (Codex).
"""

_MAX_TRIES: Final = 20
"""The maximum number of times that the changes to a file are planned; its client may write a few times a second."""


class CannotChange(Exception):
    """A file cannot be changed and was left as it was; the text says why."""


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The planned changes to one file."""

    client: Client
    config: ConfigFile
    path: Path
    changes: list[Change]
    also_read_by: list[str] = field(default_factory=list)
    """The titles of other clients that read this file."""

    @property
    def places(self) -> set[Place]:
        """The paths of the planned servers in the file."""
        return {change.server.place for change in self.changes}

    @property
    def has_edits(self) -> bool:
        """Whether the file must be written."""
        return any(change.edits for change in self.changes)


Decide = Callable[[Server], Change]
"""Returns the change to make to a server."""


def file_plans(
    inventories: Iterable[ClientInventory], decide: Decide, is_chosen: Callable[[Server], bool]
) -> list[FilePlan]:
    """Returns a plan for every file of some clients; a file that several of them read is planned once.

    Args:
        inventories: the files and servers of each client.
        decide: returns the change to make to a server.
        is_chosen: returns whether a server was chosen; the others are skipped.
    """
    plans_by_file: dict[str, FilePlan] = {}
    for inventory in inventories:
        servers_by_file: dict[Path, list[Server]] = {}
        for server in inventory.servers:
            if is_chosen(server):
                servers_by_file.setdefault(server.file, []).append(server)
        for path, servers in servers_by_file.items():
            real_path = os.path.realpath(path)
            existing_plan = plans_by_file.get(real_path)
            if existing_plan is not None and {server.place for server in servers} <= existing_plan.places:
                existing_plan.also_read_by.append(inventory.client.title)
                continue
            changes = [decide(server) for server in servers]
            key = real_path if existing_plan is None else str(path)
            plans_by_file[key] = FilePlan(inventory.client, servers[0].config, path, changes)
    return list(plans_by_file.values())


def route_decision(
    wrapper: Wrapper, state: InstallState, probes: Mapping[str, Probe], ways: Collection[OAuthRoute] = ()
) -> Decide:
    """Returns a function that routes a server: a command through `mcpproxy run`, a URL through a listener.

    Args:
        wrapper: composes the words of mcpproxy's command.
        state: the records, with the listeners.
        probes: the responses of servers with a URL.
        ways: how servers that need OAuth are routed; by default they are left alone.
    """

    def decide(server: Server) -> Change:
        if server.kind != "http" or server.url_member is None:
            return route_change(server, wrapper, is_known=state.record_of(server.file) is not None)
        member, url = server.url_member
        known_listener = listener_of(url, state.listeners)
        if known_listener is not None:
            return Change(server, "keep", "already routed", listener=known_listener)
        probe = probes.get(url, Probe("unreachable", "its URL contains a variable or has just changed"))
        needs_oauth = probe.access == "oauth" and not has_credentials(server)
        if needs_oauth and "bridge" in ways:
            return bridge_change(server, url, member, wrapper)
        names_resource = needs_oauth and "oauth-resource" in ways and server.client.names_resource
        try:
            capture = "" if wrapper.capture is None else str(wrapper.capture)
            listener = state.get_or_add_listener(safe_name(server.name), split_origin(url)[0], capture)
            if listener.capture != capture:
                folder = listener.capture or "the default directory"
                return Change(server, "skip", f"its listener already records to {folder}; uninstall it first")
            change = url_route_change(server, url, member, listener, Probe("open") if names_resource else probe)
        except (NotRoutable, OSError) as error:
            return Change(server, "skip", str(error))
        return with_oauth_resource(change, url, member) if names_resource else change

    return decide


def unroute_decision(state: InstallState, *, is_named: bool) -> Decide:
    """Returns a function that restores a server.

    Args:
        state: the records of what mcpproxy wrote.
        is_named: whether the user named the servers; then servers that were wrapped by hand are restored, too.
    """

    def decide(server: Server) -> Change:
        record, place = state.record_of(server.file), path_text(server.place)

        def is_own_member(member: Place) -> bool:
            return record is not None and path_text(member) in record.added

        if server.kind == "http" and server.url_member is not None:
            member, url = server.url_member
            listener = listener_of(url, state.listeners)
            if listener is None:
                return Change(server, "keep", "not routed")
            return url_unroute_change(server, url, member, listener, is_own_member)
        if record is not None and place in record.bridged and server.words[-1:] == (record.bridged[place]["url"],):
            return unbridge_change(server, record.bridged[place])
        is_wrapped_by_hand = was_wrapped_by_hand(server, state)
        # Entries recovered from lost records have no digest.
        is_certain = state.is_complete or (record is not None and bool(record.base))
        if is_wrapped_by_hand and is_certain and not is_named:
            return Change(server, "keep", "wrapped by hand, stays")
        change = unroute_change(server, is_own_member)
        return altered(change, reason="(perhaps wrapped by hand)") if is_wrapped_by_hand and not is_certain else change

    return decide


def was_wrapped_by_hand(server: Server, state: InstallState) -> bool:
    """Returns whether a server's command was wrapped by anything other than `install`.

    `install` adds an option that nothing else writes, which also identifies copies of an entry. Without that option,
    the records decide.
    """
    if server.wrapped_command is None or server.wrapped_command.is_passing:
        return False
    record = state.record_of(server.file)
    return record is None or (
        record.routed is not None and path_text(server.place) not in (*record.routed, *record.bridged)
    )


def path_text(place: Place) -> str:
    """Returns a path in a file as JSON, as in the records; a name in YAML may be a date."""
    return json.dumps(place, default=str)


def is_routed(server: Server, state: InstallState) -> bool:
    """Returns whether a server is routed through mcpproxy."""
    url = server.url_member if server.kind == "http" else None
    return server.wrapped_command is not None or (url is not None and listener_of(url[1], state.listeners) is not None)


def remove_stale_users(state: InstallState) -> bool:
    """Remove from each listener the users that no longer lead to it; returns whether any were removed.

    Users whose file is unreadable, missing or empty are kept, because its old content may be back in a moment.
    """
    has_removed = False
    for listener in state.listeners:
        users = [user for user in listener.users if not _is_stale_user(user, listener)]
        has_removed = has_removed or users != listener.users
        listener.users = users
    return has_removed


def _is_stale_user(user: str, listener: Listener) -> bool:
    try:
        path, *_ = json.loads(user)
        data = read_file(Path(path))
    except OSError:
        return False
    except (ValueError, TypeError, RecursionError):  # the user does not name a file
        return True
    return bool(data.strip()) and f":{listener.port}".encode() not in data


def apply_plan(plan: FilePlan, decide: Decide, state: InstallState) -> list[Change]:
    """Write one file.

    Args:
        plan: the plan for the file, which names the chosen servers.
        decide: returns the change to make to a server.
        state: the records, which back up the file first.

    Returns:
        The changes that were made: the planned ones, or others that fit the file's content at the moment of writing.

    Raises:
        CannotChange: the file is unchanged.
    """
    if not plan.client.locks_with_folder:
        return _write_plan(plan, decide, state)
    try:
        with folder_lock.hold_lock(plan.path):
            return _write_plan(plan, decide, state)
    except folder_lock.Held:
        raise CannotChange(f"{plan.client.title} has locked it; close the client and try again") from None
    except OSError as error:
        raise CannotChange(error.strerror or str(error)) from None


def _write_plan(plan: FilePlan, decide: Decide, state: InstallState) -> list[Change]:
    chosen_places = {change.server.place for change in plan.changes}
    for _ in range(_MAX_TRIES):
        try:
            old_bytes = read_file(plan.path)
            document = Document(old_bytes, plan.config.format)
            servers = [
                server
                for server in servers_in(document, plan.client, plan.config, plan.path)
                if server.place in chosen_places
            ]
            changes = [decide(server) for server in servers]
            new_bytes = document.edited_bytes([edit for change in changes for edit in change.edits])
            if new_bytes == old_bytes:
                return changes
            new_bytes = _original_content(plan, changes, state, old_bytes) or new_bytes
            _record_changes(state.back_up(plan.path, plan.client.id, old_bytes, new_bytes), changes)
            state.save()
            replace_content(plan.path, old_bytes, new_bytes)
            if any([_remove_user(change) for change in changes]):  # noqa: C419 # it must run for every change
                state.save()
        except FileChanged:
            continue
        except OSError as error:
            raise CannotChange(error.strerror or str(error)) from None
        except (ConfigError, NotWritable) as error:
            raise CannotChange(str(error)) from None
        else:
            return changes
    raise CannotChange("its client kept changing it; close the client and try again")


def _record_changes(record: FileRecord, changes: list[Change]) -> None:
    """Record the data that `uninstall` needs to undo these changes."""
    for change in changes:
        if change.action != "route":
            continue
        added_paths = [path_text(edit.path) for edit in change.edits if isinstance(edit, AddMember)]
        record.added = [*dict.fromkeys([*record.added, *added_paths])]
        if change.server.kind != "http" and record.routed is not None:
            record.routed = [*dict.fromkeys([*record.routed, path_text(change.server.place)])]
        if change.bridge_data is not None:
            record.bridged[path_text(change.server.place)] = change.bridge_data
        if change.listener is not None:
            add_user(change.listener, change.server)


def _remove_user(change: Change) -> bool:
    """Remove an entry from its listener if the change stops it from using it; returns whether it was removed."""
    if change.listener is None or change.action != "unroute":
        return False
    change.listener.users = [user for user in change.listener.users if not _is_user(user, change.server)]
    return True


def add_user(listener: Listener, server: Server) -> None:
    """Record that an entry leads to a listener."""
    if not any(_is_user(user, server) for user in listener.users):
        listener.users = [*listener.users, path_text((str(server.file), *server.place))]


def _is_user(user: str, server: Server) -> bool:
    """Returns whether a user of a listener is this entry, under any path of its file."""
    try:
        path, *place = json.loads(user)
        is_same_file = os.path.realpath(path) == os.path.realpath(server.file)
    except (ValueError, TypeError, RecursionError):
        return False
    return is_same_file and json.dumps(place) == path_text(server.place)


def _original_content(plan: FilePlan, changes: list[Change], state: InstallState, old: bytes) -> bytes | None:
    """Returns the original content of the file if these changes undo everything that mcpproxy did to it, or None."""
    original = state.original_content(plan.path, old)
    if original is None or any(change.action == "route" for change in changes):
        return None
    unrouted_places = {change.server.place for change in changes if change.action == "unroute"}
    current_servers = servers_in(Document(old, plan.config.format), plan.client, plan.config, plan.path)
    if any(is_routed(server, state) and server.place not in unrouted_places for server in current_servers):
        return None
    original_servers = servers_in(Document(original, plan.config.format), plan.client, plan.config, plan.path)
    return None if any(is_routed(server, state) for server in original_servers) else original
