"""Routes servers through mcpproxy, and restores them: which files change, and how each is written.

The changes to a file are planned from its content, and planned again from its content at the moment of writing. So what
a client writes in between survives, and two concurrent calls have the same result as one after the other.
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
    bridge,
    has_credentials,
    name_resource,
    route,
    route_url,
    unbridge,
    unroute,
    unroute_url,
)
from mcpproxy.clients.client import Client, ConfigFile
from mcpproxy.clients.documents.document import Document, read_file
from mcpproxy.clients.documents.edits import AddMember, ConfigError
from mcpproxy.clients.documents.edits import Path as Place
from mcpproxy.clients.listeners import Listener, NotRoutable, listener_of, split_origin
from mcpproxy.clients.probe import Probe
from mcpproxy.clients.replace import Changed, NotWritable, replace
from mcpproxy.clients.servers import ClientInventory, Server, servers_in
from mcpproxy.clients.state import FileRecord, InstallState
from mcpproxy.clients.wrapper import Wrapper

Way = Literal["bridge", "oauth-resource"]
"""How a server that needs OAuth can be recorded: by mcp-remote, started by `run`, or, in Codex, by naming the
resource.
"""

_TRIES: Final = 20
"""How often the changes to a file are planned again while its client keeps writing, a few times a second at most."""


class CannotChange(Exception):
    """A file was left unchanged; the text says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens to one file."""

    client: Client
    config: ConfigFile
    path: Path
    changes: list[Change]
    also_read_by: list[str] = field(default_factory=list)
    """The titles of other clients that read this file."""

    @property
    def places(self) -> set[Place]:
        """Where its servers are in the file."""
        return {change.server.place for change in self.changes}

    @property
    def edits_any(self) -> bool:
        """Whether the file has to be written."""
        return any(change.edits for change in self.changes)


Decide = Callable[[Server], Change]
"""What to do with one server."""


def plans(inventories: Iterable[ClientInventory], decide: Decide, wanted: Callable[[Server], bool]) -> list[Plan]:
    """What happens to every file of some clients; a file that several of them read is planned once.

    Args:
        inventories: what each of the clients has.
        decide: decides what to do with a server.
        wanted: whether a server was chosen; the others are left out.
    """
    planned: dict[str, Plan] = {}
    for inventory in inventories:
        by_file: dict[Path, list[Server]] = {}
        for server in inventory.servers:
            if wanted(server):
                by_file.setdefault(server.file, []).append(server)
        for path, servers in by_file.items():
            real = os.path.realpath(path)
            known = planned.get(real)
            if known is not None and {server.place for server in servers} <= known.places:
                known.also_read_by.append(inventory.client.title)
                continue
            changes = [decide(server) for server in servers]
            key = real if known is None else str(path)
            planned[key] = Plan(inventory.client, servers[0].config, path, changes)
    return list(planned.values())


def routing(wrapper: Wrapper, state: InstallState, probes: Mapping[str, Probe], ways: Collection[Way] = ()) -> Decide:
    """Routes a server: mcpproxy's words in front of its command, or a listener in front of its URL.

    Args:
        wrapper: writes mcpproxy's words.
        state: has the listeners.
        probes: the responses of servers with a URL.
        ways: how servers that need OAuth are routed; by default they are left alone.
    """

    def decide(server: Server) -> Change:
        if server.kind != "http" or server.url is None:
            return route(server, wrapper, is_known=state.record_of(server.file) is not None)
        member, url = server.url
        known = listener_of(url, state.listeners)
        if known is not None:
            return Change(server, "keep", "already routed", listener=known)
        probe = probes.get(url, Probe("unreachable", "its URL contains a variable or has just changed"))
        needs_oauth = probe.access == "oauth" and not has_credentials(server)
        if needs_oauth and "bridge" in ways:
            return bridge(server, url, member, wrapper)
        named = needs_oauth and "oauth-resource" in ways and server.client.names_resource
        try:
            capture = "" if wrapper.capture is None else str(wrapper.capture)
            listener = state.listener(safe_name(server.name), split_origin(url)[0], capture)
            if listener.capture != capture:
                where = listener.capture or "the default directory"
                return Change(server, "skip", f"its listener already records to {where}; uninstall it first")
            change = route_url(server, url, member, listener, Probe("open") if named else probe)
        except (NotRoutable, OSError) as error:
            return Change(server, "skip", str(error))
        return name_resource(change, url, member) if named else change

    return decide


def unrouting(state: InstallState, *, is_named: bool) -> Decide:
    """Removes what routes a server.

    Args:
        state: what mcpproxy wrote.
        is_named: whether the user named the servers; then servers that were wrapped by hand are restored, too.
    """

    def decide(server: Server) -> Change:
        known, place = state.record_of(server.file), place_text(server.place)

        def is_own_member(member: Place) -> bool:
            return known is not None and place_text(member) in known.added

        if server.kind == "http" and server.url is not None:
            member, url = server.url
            listener = listener_of(url, state.listeners)
            if listener is None:
                return Change(server, "keep", "not routed")
            return unroute_url(server, url, member, listener, is_own_member)
        if known is not None and place in known.bridged and server.words[-1:] == (known.bridged[place]["url"],):
            return unbridge(server, known.bridged[place])
        is_foreign = is_by_hand(server, state)
        # Entries recovered from lost records have no digest.
        is_certain = state.is_read or (known is not None and bool(known.base))
        if is_foreign and is_certain and not is_named:
            return Change(server, "keep", "wrapped by hand, stays")
        change = unroute(server, is_own_member)
        return altered(change, reason="(perhaps wrapped by hand)") if is_foreign and not is_certain else change

    return decide


def is_by_hand(server: Server, state: InstallState) -> bool:
    """Whether a server's command was wrapped by anything other than `install`.

    The option that only `install` writes shows this, even in a copy of an entry; without that option, the records
    decide.
    """
    if server.routed is None or server.routed.passes:
        return False
    known = state.record_of(server.file)
    return known is None or (
        known.routed is not None and place_text(server.place) not in (*known.routed, *known.bridged)
    )


def place_text(place: Place) -> str:
    """Returns a place as the records write it; a name in YAML may be a date."""
    return json.dumps(place, default=str)


def is_routed(server: Server, state: InstallState) -> bool:
    """Whether a server is routed through mcpproxy."""
    url = server.url if server.kind == "http" else None
    return server.routed is not None or (url is not None and listener_of(url[1], state.listeners) is not None)


def remove_stale_users(state: InstallState) -> bool:
    """Remove from each listener the users that no longer lead to it; returns whether any were removed.

    Files that cannot be read, are missing or are empty keep theirs: their old content may be back in a moment.
    """
    struck = False
    for listener in state.listeners:
        users = [user for user in listener.users if not _leads_elsewhere(user, listener)]
        struck = struck or users != listener.users
        listener.users = users
    return struck


def _leads_elsewhere(user: str, listener: Listener) -> bool:
    try:
        path, *_ = json.loads(user)
        data = read_file(Path(path))
    except OSError:
        return False
    except (ValueError, TypeError, RecursionError):  # it names no file
        return True
    return bool(data.strip()) and f":{listener.port}".encode() not in data


def apply_plan(plan: Plan, decide: Decide, state: InstallState) -> list[Change]:
    """Write one file.

    Args:
        plan: says which of its servers were chosen.
        decide: says what to do with each.
        state: makes the backup first.

    Returns:
        The changes that were made: those of the plan, or those that fit the file's content at the moment of writing.

    Raises:
        Refused: the file is unchanged.
    """
    if not plan.client.locks_with_folder:
        return _carried_out(plan, decide, state)
    try:
        with folder_lock.locked(plan.path):
            return _carried_out(plan, decide, state)
    except folder_lock.Held:
        raise CannotChange(f"{plan.client.title} has locked it; close the client and try again") from None
    except OSError as error:
        raise CannotChange(error.strerror or str(error)) from None


def _carried_out(plan: Plan, decide: Decide, state: InstallState) -> list[Change]:
    chosen = {change.server.place for change in plan.changes}
    for _ in range(_TRIES):
        try:
            old = read_file(plan.path)
            document = Document(old, plan.config.format)
            servers = [
                server for server in servers_in(document, plan.client, plan.config, plan.path) if server.place in chosen
            ]
            changes = [decide(server) for server in servers]
            new = document.edited([edit for change in changes for edit in change.edits])
            if new == old:
                return changes
            new = _original(plan, changes, state, old) or new
            _note(state.before_write(plan.path, plan.client.id, old, new), changes)
            state.save()
            replace(plan.path, old, new)
            if any([_let_go(change) for change in changes]):  # noqa: C419 # each of them
                state.save()
        except Changed:
            continue
        except OSError as error:
            raise CannotChange(error.strerror or str(error)) from None
        except (ConfigError, NotWritable) as error:
            raise CannotChange(str(error)) from None
        else:
            return changes
    raise CannotChange("its client kept changing it; close the client and try again")


def _note(written: FileRecord, changes: list[Change]) -> None:
    """Record what `uninstall` needs to undo these changes."""
    for change in changes:
        if change.action != "route":
            continue
        added = [place_text(edit.path) for edit in change.edits if isinstance(edit, AddMember)]
        written.added = [*dict.fromkeys([*written.added, *added])]
        if change.server.kind != "http" and written.routed is not None:
            written.routed = [*dict.fromkeys([*written.routed, place_text(change.server.place)])]
        if change.bridged is not None:
            written.bridged[place_text(change.server.place)] = change.bridged
        if change.listener is not None:
            add_user(change.listener, change.server)


def _let_go(change: Change) -> bool:
    """Remove an entry from its listener if it stops using it; returns whether it did."""
    if change.listener is None or change.action != "unroute":
        return False
    change.listener.users = [user for user in change.listener.users if not _is_user(user, change.server)]
    return True


def add_user(listener: Listener, server: Server) -> None:
    """Record that an entry leads to a listener."""
    if not any(_is_user(user, server) for user in listener.users):
        listener.users = [*listener.users, place_text((str(server.file), *server.place))]


def _is_user(user: str, server: Server) -> bool:
    """Whether a user of a listener is this entry, under any name of its file."""
    try:
        path, *place = json.loads(user)
        is_same = os.path.realpath(path) == os.path.realpath(server.file)
    except (ValueError, TypeError, RecursionError):
        return False
    return is_same and json.dumps(place) == place_text(server.place)


def _original(plan: Plan, changes: list[Change], state: InstallState, old: bytes) -> bytes | None:
    """Returns the original content of the file if these changes undo everything that mcpproxy did to it, or None."""
    original = state.original(plan.path, old)
    if original is None or any(change.action == "route" for change in changes):
        return None
    undone = {change.server.place for change in changes if change.action == "unroute"}
    now = servers_in(Document(old, plan.config.format), plan.client, plan.config, plan.path)
    if any(is_routed(server, state) and server.place not in undone for server in now):
        return None
    before = servers_in(Document(original, plan.config.format), plan.client, plan.config, plan.path)
    return None if any(is_routed(server, state) for server in before) else original
