"""Routes servers through mcpproxy, and takes them off again: which files change, and how each is written.

A file is planned from what it holds, and planned anew from what it holds when it is written. So what a client writes
meanwhile survives, and two calls at once end as one after the other would.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mcpproxy.clients.changes import Change, route, unroute
from mcpproxy.clients.client import Client, ConfigFile
from mcpproxy.clients.documents.document import Document
from mcpproxy.clients.documents.edits import ConfigError
from mcpproxy.clients.replace import Changed, NotWritable, replace
from mcpproxy.clients.servers import Found, Server, servers_in
from mcpproxy.clients.state import State
from mcpproxy.clients.wrapper import Wrapper

_TRIES: Final = 20
"""How often a file is planned anew that its client keeps writing; a client writes a few times a second at most."""


class Refused(Exception):
    """A file was left as it was; the text says why."""


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
    def edits_any(self) -> bool:
        """Whether the file has to be written."""
        return any(change.edits for change in self.changes)


Decide = Callable[[Server], Change]
"""What to do with one server."""


def plans(found: Iterable[Found], decide: Decide, wanted: Callable[[Server], bool]) -> list[Plan]:
    """What happens to every file of some clients; a file that several of them read is planned once.

    Args:
        found: what each of the clients has.
        decide: says what to do with a server.
        wanted: whether a server was chosen; the others are left out.
    """
    planned: dict[Path, Plan] = {}
    for one in found:
        by_file: dict[Path, list[Server]] = {}
        for server in one.servers:
            if wanted(server):
                by_file.setdefault(server.file, []).append(server)
        for path, servers in by_file.items():
            known = planned.get(path)
            if known is not None:
                known.also_read_by.append(one.client.title)
                continue
            planned[path] = Plan(one.client, servers[0].config, path, [decide(server) for server in servers])
    return list(planned.values())


def routing(wrapper: Wrapper) -> Decide:
    """Puts our words in front of a command."""
    return lambda server: route(server, wrapper)


def unrouting(state: State) -> Decide:
    """Takes them away."""

    def decide(server: Server) -> Change:
        known = state.files.get(str(server.file))
        return unroute(server, args_added=known is not None and json.dumps(server.place) in known.args_added)

    return decide


def carry_out(plan: Plan, decide: Decide, state: State) -> list[Change]:
    """Write one file.

    Args:
        plan: says which of its servers were chosen.
        decide: says what to do with each.
        state: takes the backup first.

    Returns:
        What was done: the plan's changes, or those that fit what the file holds by now.

    Raises:
        Refused: the file is as it was.
    """
    chosen = {change.server.place for change in plan.changes}
    for _ in range(_TRIES):
        try:
            old = plan.path.read_bytes()
            document = Document(old, plan.config.format)
            servers = [one for one in servers_in(document, plan.client, plan.config, plan.path) if one.place in chosen]
            changes = [decide(server) for server in servers]
            new = document.edited([edit for change in changes for edit in change.edits])
            if new == old:
                return changes
            new = _original(plan, changes, state, old) or new
            added = [json.dumps(change.server.place) for change in changes if change.adds_args]
            state.before_write(plan.path, plan.client.id, old, new, added)
            replace(plan.path, old, new)
        except Changed:
            continue
        except OSError as error:
            raise Refused(error.strerror or str(error)) from None
        except (ConfigError, NotWritable) as error:
            raise Refused(str(error)) from None
        else:
            return changes
    raise Refused("its client kept changing it; close the client and try again")


def _original(plan: Plan, changes: list[Change], state: State, old: bytes) -> bytes | None:
    """The file as it was before us, if these changes undo all that we did to it."""
    original = state.original(plan.path, old)
    if original is None or any(change.action == "route" for change in changes):
        return None
    undone = {change.server.place for change in changes if change.action == "unroute"}
    now = servers_in(Document(old, plan.config.format), plan.client, plan.config, plan.path)
    if any(server.routed is not None and server.place not in undone for server in now):
        return None
    before = servers_in(Document(original, plan.config.format), plan.client, plan.config, plan.path)
    return None if any(server.routed is not None for server in before) else original
