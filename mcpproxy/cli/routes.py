"""Code that `install` and `uninstall` share: chooses clients and servers, prints the changes, and writes the files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from captures.redact import server_name
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.clients.addresses import display_origin
from mcpproxy.clients.catalogue import CLIENTS, client_by_id
from mcpproxy.clients.changes import Change
from mcpproxy.clients.client import Client
from mcpproxy.clients.installer import CannotChange, Decide, FilePlan, apply_plan
from mcpproxy.clients.listeners import Listener, listener_of
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.servers import ClientInventory, Server, read_inventory
from mcpproxy.clients.service import NoService, write_unit
from mcpproxy.clients.state import InstallState
from mcpproxy.report.output import json_line, width_of_stdout
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells, fit
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.nearest import hint
from mcpproxy.wording.wrapping import wrapped

_WORDS_OF_ACTION = {
    "route": ("will be routed", "routed"),
    "unroute": ("will be restored", "restored"),
}
"""For each action, the words for its effect on a server: before it is carried out, and after."""


def add_client_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add the arguments that choose clients and servers."""
    parser.add_argument(
        "client", nargs="*", metavar="CLIENT", help="clients by name, such as claude-code or cursor (default: ask)"
    )
    parser.add_argument("--server", action="append", metavar="SERVER", help=f"{verb} only this server; can be repeated")
    parser.add_argument(
        "--scope",
        choices=("user", "project"),
        default="user",
        help="user: your own configuration files (default); project: those of the repository you are in",
    )
    parser.add_argument("--all", action="store_true", help="all clients, without asking")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")


def chosen_clients(options: argparse.Namespace) -> list[Client]:
    """Return the clients that were named, or all clients.

    Raises:
        ValueError: a name is unknown; the message is for the user.
    """
    return [named_client(name) for name in options.client] or list(CLIENTS)


def named_client(name: str) -> Client:
    """Return the client with this name.

    Raises:
        ValueError: the name is unknown; the message is for the user.
    """
    client = client_by_id(name)
    if client is None:
        ids = [candidate.id for candidate in CLIENTS]
        raise ValueError(f"there is no client {sanitise(name, 64)}{hint(name, ids)}; clients: {', '.join(ids)}")
    return client


def find_inventories(clients: Iterable[Client], machine: Machine) -> list[ClientInventory]:
    """Return the inventories of those clients that have left any trace on this machine."""
    return [inventory for client in clients if (inventory := read_inventory(client, machine)).is_installed]


def find_used_inventories(clients: Sequence[Client], machine: Machine) -> list[ClientInventory]:
    """Return the inventories of `find_inventories`, but leave out unnamed clients that only share a project's files."""
    inventories = find_inventories(clients, machine)
    if len(clients) < len(CLIENTS):
        return inventories
    used_inventories = [
        inventory
        for inventory in inventories
        if inventory.uneditable_servers or _inventory_paths(inventory) - _project_paths(inventory, machine)
    ]
    covered_paths = {path for inventory in used_inventories for path in _inventory_paths(inventory)}
    for inventory in inventories:
        if inventory not in used_inventories and not _inventory_paths(inventory) <= covered_paths:
            used_inventories.append(inventory)
            covered_paths |= _inventory_paths(inventory)
    return [inventory for inventory in inventories if inventory in used_inventories]


def _inventory_paths(inventory: ClientInventory) -> set[Path]:
    return {*inventory.files, *(path for path, _ in inventory.broken_files)}


def _project_paths(inventory: ClientInventory, machine: Machine) -> set[Path]:
    """Return the paths of the project's files that a client reads."""
    client = inventory.client
    places = [config.places.get(machine.system, ()) for config in client.files if config.scope == "project"]
    return {
        path
        for config_places in places
        for place in config_places
        for path in machine.paths_of(place, client.overrides)
    }


def is_chosen(server: Server, options: argparse.Namespace) -> bool:
    """Whether the options choose a server."""
    return server.config.scope == options.scope and (not options.server or server.name in options.server)


class RoutePrinter:
    """Prints the changes to servers, in a block for each file."""

    def __init__(self, machine: Machine, listeners: Sequence[Listener], *, as_json: bool) -> None:
        """Create a printer of JSON lines or of text; it shows the upstreams of servers that `listeners` relay."""
        self._machine = machine
        self._listeners = (*listeners,)
        self._is_json = as_json
        self._width = width_of_stdout()
        self.is_repeated = False
        """Whether the plans were printed before; only results are printed then."""

    def print_plan(self, plan: FilePlan, changes: list[Change], *, is_done: bool) -> None:
        """Print a file and the changes to its servers.

        Args:
            plan: the plan of the file.
            changes: the changes to its servers.
            is_done: whether they have been made.
        """
        if self._is_json:
            for change in changes:
                sys.stdout.write(json_line(self._row(plan, change, is_done=is_done)))
            return
        if self.is_repeated:
            changes = [change for change in changes if change.edits]
        if not changes:
            return
        lines = [f"{plan.client.title}  {sanitise(self._machine.display_path(plan.path), None)}"]
        names = [sanitise(change.server.name, 40) for change in changes]
        packages = [_server_label(change.server, self._listeners) for change in changes]
        name_width = min(24, max(map(cells, names), default=0))
        package_width = min(30, max(map(cells, packages), default=0))
        for name, package, change in zip(names, packages, changes, strict=True):
            outcome = sanitise(_outcome_text(change, self._machine, is_done=is_done), 200)
            text = f"  {pad_cell(name, name_width)}  {pad_cell(package, package_width)}  {outcome}"
            lines.append(fit(text, self._width))
        sys.stdout.write("".join(f"{line}\n" for line in lines))

    def _row(self, plan: FilePlan, change: Change, *, is_done: bool) -> dict[str, Any]:
        server = change.server
        return {
            "client": plan.client.id,
            "scope": server.scope,
            "file": str(plan.path),
            "project": server.project or None,
            "server": server.name,
            "kind": server.kind,
            "action": change.action,
            "done": is_done and bool(change.edits),
            "reason": change.reason or None,
        }


def pad_cell(text: str, width: int) -> str:
    """Return the text of a table cell: cut or padded to a width."""
    fitted_text = fit(text, width)
    return fitted_text + " " * (width - cells(fitted_text))


def _server_label(server: Server, listeners: Iterable[Listener]) -> str:
    """Return a short name for a server's command or URL, without anything that could be a secret."""
    wrapped_command = server.wrapped_command
    words = wrapped_command.server_command if wrapped_command is not None else server.words
    if words:
        return sanitise(server_name([word.encode("utf-8", "surrogatepass") for word in words]), 60)
    url = server.url_member
    if url is None:
        return ""
    listener = listener_of(url[1], listeners)
    return sanitise(display_origin(url[1]) if listener is None else listener.upstream, 60)


def _outcome_text(change: Change, machine: Machine, *, is_done: bool) -> str:
    reason = sanitise(change.reason, 200)  # may quote the server
    if change.action in _WORDS_OF_ACTION:
        details = f" {reason}" if reason else ""
        if change.server.project:
            details += f" in {machine.display_path(Path(change.server.project))}"
        return (
            _WORDS_OF_ACTION[change.action][is_done]
            + details
            + (", but switched off in the client" if change.server.is_disabled else "")
        )
    return reason if change.action == "keep" else f"left alone: {reason}"


def write_plans(
    plans: list[FilePlan], decide: Decide, state: InstallState, listing: RoutePrinter
) -> tuple[list[FilePlan], int]:
    """Write the files, and print the changes that were made.

    Returns:
        The plans that changed a file, and the exit code.

    Raises:
        OSError: stdout cannot be written; the files have been written anyway.
    """
    written_plans, code = [], int(Exit.FINE)
    output_errors: list[OSError] = []
    for plan in plans:
        try:
            changes = apply_plan(plan, decide, state) if plan.has_edits else plan.changes
        except CannotChange as refusal:
            code = fail(f"{plan.path} is left as it is: {refusal}")
            continue
        try:
            listing.print_plan(plan, changes, is_done=True)
        except OSError as error:
            output_errors.append(error)
        if any(change.edits for change in changes):
            written_plans.append(plan)
    if output_errors:
        raise output_errors[0]
    return written_plans, code


def report_broken_files(inventories: Iterable[ClientInventory], machine: Machine) -> int:
    """Report each file that cannot be read; returns the exit code."""
    code = int(Exit.FINE)
    reported_paths: set[Path] = set()
    for inventory in inventories:
        for path, reason in inventory.broken_files:
            if path not in reported_paths:
                reported_paths.add(path)
                code = fail(
                    f"{machine.display_path(path)} of {inventory.client.title} cannot be read: "
                    f"{reason}; fix it and try again"
                )
    return code


def next_lines(plans: Iterable[FilePlan]) -> Iterator[str]:
    """Yield lines that say what to do in each client whose files were written."""
    written_plans = list(plans)
    for client in dict.fromkeys(plan.client for plan in written_plans):
        is_project = any(plan.client is client and plan.config.scope == "project" for plan in written_plans)
        next_step = client.step_after_edit + (
            f" ({client.step_after_project_edit})" if is_project and client.step_after_project_edit else ""
        )
        text = f"Next, in {client.title}: {next_step}" if next_step else f"{client.title} needs no restart"
        yield from wrapped(text, width_of_stdout())


def elsewhere_lines(inventories: Iterable[ClientInventory]) -> Iterator[str]:
    """Yield lines about servers that cannot be routed because they are not configured in a file."""
    for inventory in inventories:
        for source, name in inventory.uneditable_servers:
            label = sanitise(name, 60)
            yield f"{inventory.client.title}: the {source} {label} may have servers of its own, which cannot be routed"


def confirm_changes(
    plans: list[FilePlan], listing: RoutePrinter, options: argparse.Namespace, verb: str, done: str
) -> int | None:
    """Show the changes, and ask if no client was named; returns the exit code, or None if the files may be written.

    Args:
        plans: the plans of all files.
        listing: prints the plans.
        options: the options of the command.
        verb: the verb of the question, such as `Route`.
        done: the participle of the verb.
    """
    if not options.dry_run and (options.client or options.all):
        return None
    for plan in plans:
        listing.print_plan(plan, plan.changes, is_done=False)
    servers = count_text(sum(bool(change.edits) for plan in plans for change in plan.changes), "server")
    if options.dry_run or servers.startswith("0 "):
        return int(Exit.FINE)
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        return fail(f"{servers} can be {done}, but there is no terminal to ask on: name clients, or use --all")
    sys.stdout.write(f"{verb} {servers}? [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        listing.is_repeated = True
        return None
    sys.stdout.write("Nothing was changed\n")
    return int(Exit.FINE)


def warn_about_shared_files(plans: Iterable[FilePlan], machine: Machine) -> None:
    """Warn about files with other readers: other clients, and the people who share a repository."""
    for plan in plans:
        if plan.also_read_by:
            say(f"{machine.display_path(plan.path)} is read by {', '.join(plan.also_read_by)} as well")
        if plan.config.scope == "project":
            say(
                f"{machine.display_path(plan.path)} belongs to the project: do not commit this change, "
                "because others who use the file would need mcpproxy at the same path"
            )


def write_service(machine: Machine, program: Sequence[str], options: Sequence[str] = ()) -> int:
    """Write the unit that runs `up` with these options, and print how to start it; returns the exit code."""
    try:
        unit = write_unit(machine, (*program, "up", *options))
    except (OSError, NoService) as error:
        return fail(f"the unit cannot be written: {error}")
    sys.stdout.write(
        f"Wrote {machine.display_path(unit.path)}\nTo start it now and at every login, run: {unit.start_command}\n"
    )
    return int(Exit.FINE)
