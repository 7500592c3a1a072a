"""Remove mcpproxy from your MCP clients' configuration and restore each server's command or URL.

A file that has not changed since `install` is restored byte for byte. In any other file, only what mcpproxy added is
removed; every other change stays. Captures are kept, unless --purge removes everything that mcpproxy has written.
"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace as altered
from pathlib import Path

from mcpproxy.cli.arguments import Parser, add_json
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.cli.purge import enabled_units, purge
from mcpproxy.cli.routes import (
    RoutePrinter,
    add_client_arguments,
    chosen_clients,
    confirm_changes,
    find_inventories,
    is_chosen,
    next_lines,
    report_broken_files,
    write_plans,
)
from mcpproxy.clients.catalogue import CLIENTS
from mcpproxy.clients.documents.document import read_file
from mcpproxy.clients.installer import (
    FilePlan,
    file_plans,
    is_routed,
    remove_stale_users,
    unroute_decision,
    was_wrapped_by_hand,
)
from mcpproxy.clients.listeners import HOST, Listener
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.recovery import recover_records, recovery_text
from mcpproxy.clients.servers import ClientInventory, Server
from mcpproxy.clients.service import unit_path
from mcpproxy.clients.state import InstallState, digest, open_state, state_folder
from mcpproxy.clients.up_lock import running_up
from mcpproxy.clients.wrapper import KEEP_SERVING_OPTION
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `uninstall`."""
    parser = Parser("uninstall", __doc__)
    add_client_arguments(parser, "restore")
    parser.add_argument(
        "--purge",
        action="store_true",
        help="list everything that mcpproxy has written on this machine, captures and redaction key included, and "
        "remove it; refused while a server is routed",
    )
    parser.add_argument("--yes", action="store_true", help="with --purge: do not ask; required if there is no terminal")
    add_json(parser)
    return parser


def run(arguments: list[str]) -> int:
    """Restore the chosen servers; returns 2 if a file could not be read or written."""
    options = parser().parse_args(arguments)
    try:
        clients = chosen_clients(options)
        machine = Machine.current()
    except (ValueError, OSError) as error:
        return fail(str(error))
    if options.yes and not options.purge:
        return fail("--yes needs --purge; to restore all clients without asking, use --all")
    if options.purge:
        return _purge(options, machine)
    inventories = find_inventories(clients, machine)
    code = report_broken_files(inventories, machine)
    with open_state(is_dry=options.dry_run) as state:
        has_unused = remove_stale_users(state)
        lost_servers = recover_records(state, machine, is_sure=True)
        if has_unused and not options.dry_run:
            state.save()
        for server in lost_servers:
            if is_chosen(server, options) and server.client in clients:
                code = fail(recovery_text(server, machine))
        listing = RoutePrinter(machine, state.listeners, as_json=options.format == "json")
        decide = unroute_decision(state, is_named=bool(options.server))
        all_plans = file_plans(
            inventories, decide, lambda server: is_routed(server, state) and is_chosen(server, options)
        )
        if not all_plans:
            if code == Exit.FINE and options.format != "json":
                sys.stdout.write(f"{_nothing_routed_message(inventories, lost_servers, state, options)}\n")
            return code
        had_listeners = bool(state.listeners)
        stop_code = confirm_changes(all_plans, listing, options, "Restore", "restored")
        if stop_code is not None:
            _print_unwrapping_commands(all_plans, options)
            return max(code, stop_code)
        written_plans, written_code = write_plans(all_plans, decide, state, listing)
    if options.format != "json":
        if had_listeners:
            _print_unit_advice(machine, state)
        sys.stdout.writelines(f"{line}\n" for line in next_lines(written_plans))
        _print_unwrapping_commands(all_plans, options)
    return max(code, written_code, _report_unrestored(all_plans, machine))


def _purge(options: argparse.Namespace, machine: Machine) -> int:
    """Remove everything that mcpproxy has written, unless a server is still routed; returns the exit code."""
    if options.client or options.server or options.all or options.scope != "user" or options.format == "json":
        return fail(
            "--purge applies to all clients: give it alone, or with --yes or --dry-run, after `mcpproxy uninstall "
            "--all`"
        )
    inventories = find_inventories(CLIENTS, machine)
    with open_state(is_dry=options.dry_run) as state:
        remove_stale_users(state)
        lost_servers = recover_records(state, machine, is_sure=True)
        wrapped_servers = [
            server for inventory in inventories for server in inventory.servers if is_routed(server, state)
        ]
        routed_servers = [server for server in wrapped_servers if not was_wrapped_by_hand(server, state)]
        scopes = {server.config.scope for server in (*routed_servers, *lost_servers)}
        if routed_servers or lost_servers:
            names = sanitise(", ".join(sorted({server.name for server in (*routed_servers, *lost_servers)})), 200)
            scope = "" if "user" in scopes else " --scope project"
            return fail(
                f"nothing was removed, because servers are still routed: {names}; first run: mcpproxy uninstall "
                f"--all{scope}"
            )
        unreadable_inventories = [
            altered(
                inventory,
                broken_files=[
                    (path, reason) for path, reason in inventory.broken_files if _was_written_by_install(path, state)
                ],
            )
            for inventory in inventories
        ]
        if report_broken_files(unreadable_inventories, machine):
            return fail("nothing was removed, because servers in such a file may still be routed")
        routed_file = _routed_file_elsewhere(state, inventories)
        if routed_file is not None:
            return fail(
                f"nothing was removed, because servers in {routed_file} are still routed; in its folder, first run: "
                "mcpproxy uninstall --all --scope project"
            )
        up = running_up(state_folder())
        if up is not None:
            return fail(f"nothing was removed, because mcpproxy up is running, as process {up.pid}; first stop it")
        if unit_names := enabled_units(machine):
            command = f"systemctl --user disable --now {' '.join(unit_names)}"
            return fail(f"nothing was removed: units of mcpproxy are enabled; first run: {command}")
        unwrapping_notes = dict.fromkeys(
            f"{server.name} of {server.client.title} was wrapped by hand, and still starts mcpproxy run; to unwrap it: "
            f"{_unwrapping_command(server)}"
            for server in wrapped_servers
            if was_wrapped_by_hand(server, state)
        )
        other_notes = (*unwrapping_notes, *_missing_file_notes(state, machine))
        return purge(machine, other_notes, is_agreed=options.yes, is_dry=options.dry_run)


def _was_written_by_install(path: Path, state: InstallState) -> bool:
    """Whether `install` has written to this file, so that its servers may be routed."""
    return state.record_of(path) is not None or any(
        os.path.realpath(path) == os.path.realpath(used_path) for used_path, _ in _files_with_listeners(state)
    )


def _files_with_listeners(state: InstallState) -> Iterator[tuple[Path, Listener]]:
    """Yield each file whose entries use a listener, with that listener."""
    for listener in state.listeners:
        for user in listener.users:
            with suppress(ValueError, TypeError, RecursionError):
                path, *_ = json.loads(user)
                yield Path(path), listener


def _missing_file_notes(state: InstallState, machine: Machine) -> Iterator[str]:
    """Yield advice for missing files whose entries led to mcpproxy's ports, because no record of them will remain."""
    for path, listener in _files_with_listeners(state):
        yield (
            f"{machine.display_path(path)}, which led to mcpproxy, is missing or empty; if it comes back, write "
            f"{listener.upstream} in place of http://{HOST}:{listener.port} in it"
        )


def _routed_file_elsewhere(state: InstallState, inventories: list[ClientInventory]) -> Path | None:
    """Return a file, such as that of another project, that leads to a port of mcpproxy or is as `install` wrote it.

    Returns None if there is none. Files in the inventories are left out: it is known which of their entries are routed.
    """
    inventory_files = {os.path.realpath(path) for inventory in inventories for path in inventory.files}
    for path, _ in _files_with_listeners(state):
        try:
            is_empty = not read_file(path).strip()
        except (FileNotFoundError, NotADirectoryError):
            is_empty = True
        except (OSError, ValueError):
            is_empty = False
        if not is_empty:
            return path
    for name, file_record in state.files.items():
        if name in inventory_files:
            continue
        try:
            data = read_file(Path(name))
        except (OSError, ValueError):
            continue
        current_digest = digest(data)
        if (
            current_digest in file_record.after
            and current_digest != file_record.base
            and KEEP_SERVING_OPTION.encode() in data
        ):
            return Path(name)
    return None


def _report_unrestored(all_plans: list[FilePlan], machine: Machine) -> int:
    """Report the entries that cannot be restored, with the reasons; returns the exit code."""
    code = int(Exit.FINE)
    for change in (change for plan in all_plans for change in plan.changes if change.action == "skip"):
        code = fail(
            f"{change.server.name} in {machine.display_path(change.server.file)} was not restored: {change.reason}"
        )
    return code


def _print_unwrapping_commands(all_plans: list[FilePlan], options: argparse.Namespace) -> None:
    """Print how to unwrap the entries that stay because `install` did not write them."""
    if options.format == "json":
        return
    for change in (change for plan in all_plans for change in plan.changes if change.action == "keep"):
        sys.stdout.write(f"To unwrap it as well: {_unwrapping_command(change.server)}\n")


def _unwrapping_command(server: Server) -> str:
    """Return the command that unwraps an entry that was wrapped by hand."""
    scope = "" if server.config.scope == "user" else f" --scope {server.config.scope}"
    name = shlex.quote(sanitise(server.name, None))
    return f"mcpproxy uninstall {server.client.id}{scope} --server {name}"


def _nothing_routed_message(
    inventories: list[ClientInventory], lost_servers: list[Server], state: InstallState, options: argparse.Namespace
) -> str:
    """Return the message that none of the chosen servers is routed."""
    routed_servers = [server for inventory in inventories for server in inventory.servers if is_routed(server, state)]
    scopes = [server.config.scope for server in (*routed_servers, *lost_servers)]
    other_count = len([scope for scope in scopes if scope != options.scope])
    if not other_count or options.server:
        return "Nothing to restore; see mcpproxy status."
    place, other_scope = ("project files", "project") if options.scope == "user" else ("your own files", "user")
    verb = "is" if other_count == 1 else "are"
    return (
        f"Nothing to restore here; {count_text(other_count, 'server')} in {place} {verb} routed: --scope {other_scope}"
    )


def _print_unit_advice(machine: Machine, state: InstallState) -> None:
    """Print how to remove the unit of `mcpproxy up`, if it is no longer needed."""
    unit = unit_path(machine)
    if unit.exists() and not state.listeners:
        command = "systemctl --user disable --now mcpproxy" if machine.system == "linux" else f"launchctl unload {unit}"
        sys.stdout.write(
            f"{machine.display_path(unit)} is no longer needed: stop it with {command}, then delete the file\n"
        )
