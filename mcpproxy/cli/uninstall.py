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
    add_choice,
    chosen_clients,
    find_all,
    is_chosen,
    next_lines,
    say_broken,
    stops_before_writing,
    write_all,
)
from mcpproxy.clients.catalogue import CLIENTS
from mcpproxy.clients.documents.document import read_file
from mcpproxy.clients.installer import Plan, is_by_hand, is_routed, plans, remove_stale_users, unrouting
from mcpproxy.clients.listeners import HOST, Listener
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.recovery import recover, recovery_text
from mcpproxy.clients.servers import ClientInventory, Server
from mcpproxy.clients.service import unit_path
from mcpproxy.clients.state import InstallState, digest, opened, state_folder
from mcpproxy.clients.up_lock import running_up
from mcpproxy.clients.wrapper import PASSES
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `uninstall`."""
    parser = Parser("uninstall", __doc__)
    add_choice(parser, "restore")
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
        machine = Machine.here()
    except (ValueError, OSError) as error:
        return fail(str(error))
    if options.yes and not options.purge:
        return fail("--yes needs --purge; to restore all clients without asking, use --all")
    if options.purge:
        return _purge(options, machine)
    inventories = find_all(clients, machine)
    code = say_broken(inventories, machine)
    with opened(is_dry=options.dry_run) as state:
        has_unused = remove_stale_users(state)
        unknown = recover(state, machine, is_sure=True)
        if has_unused and not options.dry_run:
            state.save()
        for server in unknown:
            if is_chosen(server, options) and server.client in clients:
                code = fail(recovery_text(server, machine))
        listing = RoutePrinter(machine, state.listeners, as_json=options.format == "json")
        decide = unrouting(state, is_named=bool(options.server))
        todo = plans(inventories, decide, lambda server: is_routed(server, state) and is_chosen(server, options))
        if not todo:
            if code == Exit.FINE and options.format != "json":
                sys.stdout.write(f"{_nothing(inventories, unknown, state, options)}\n")
            return code
        had_listeners = bool(state.listeners)
        stop = stops_before_writing(todo, listing, options, "Restore", "restored")
        if stop is not None:
            _say_by_hand(todo, options)
            return max(code, stop)
        written, written_code = write_all(todo, decide, state, listing)
    if options.format != "json":
        if had_listeners:
            _say_of_unit(machine, state)
        sys.stdout.writelines(f"{line}\n" for line in next_lines(written))
        _say_by_hand(todo, options)
    return max(code, written_code, _say_left(todo, machine))


def _purge(options: argparse.Namespace, machine: Machine) -> int:
    """Remove everything, unless something still needs it."""
    if options.client or options.server or options.all or options.scope != "user" or options.format == "json":
        return fail(
            "--purge applies to all clients: give it alone, or with --yes or --dry-run, after `mcpproxy uninstall "
            "--all`"
        )
    inventories = find_all(CLIENTS, machine)
    with opened(is_dry=options.dry_run) as state:
        remove_stale_users(state)
        unknown = recover(state, machine, is_sure=True)
        wrapped = [server for known in inventories for server in known.servers if is_routed(server, state)]
        routed = [server for server in wrapped if not is_by_hand(server, state)]
        scopes = {server.config.scope for server in (*routed, *unknown)}
        if routed or unknown:
            names = sanitise(", ".join(sorted({server.name for server in (*routed, *unknown)})), 200)
            scope = "" if "user" in scopes else " --scope project"
            return fail(
                f"nothing was removed, because servers are still routed: {names}; first run: mcpproxy uninstall "
                f"--all{scope}"
            )
        unreadable = [
            altered(known, broken=[(path, why) for path, why in known.broken if _may_lead_to_us(path, state)])
            for known in inventories
        ]
        if say_broken(unreadable, machine):
            return fail("nothing was removed, because servers in such a file may still be routed")
        elsewhere = _written_elsewhere(state, inventories)
        if elsewhere is not None:
            return fail(
                f"nothing was removed, because servers in {elsewhere} are still routed; in its folder, first run: "
                "mcpproxy uninstall --all --scope project"
            )
        running = running_up(state_folder())
        if running is not None:
            return fail(f"nothing was removed, because mcpproxy up is running, as process {running.pid}; first stop it")
        if names_of := enabled_units(machine):
            how = f"systemctl --user disable --now {' '.join(names_of)}"
            return fail(f"nothing was removed: units of mcpproxy are enabled; first run: {how}")
        by_hand = dict.fromkeys(
            f"{server.name} of {server.client.title} was wrapped by hand, and still starts mcpproxy run; to unwrap it: "
            f"{_unwrapping(server)}"
            for server in wrapped
            if is_by_hand(server, state)
        )
        stays = (*by_hand, *_absent(state, machine))
        return purge(machine, stays, is_agreed=options.yes, is_dry=options.dry_run)


def _may_lead_to_us(path: Path, state: InstallState) -> bool:
    """Whether `install` wrote to a file that cannot be read now."""
    return state.record_of(path) is not None or any(
        os.path.realpath(path) == os.path.realpath(used) for used, _ in _used_files(state)
    )


def _used_files(state: InstallState) -> Iterator[tuple[Path, Listener]]:
    """Yields the files whose entries use a listener, with it."""
    for listener in state.listeners:
        for user in listener.users:
            with suppress(ValueError, TypeError, RecursionError):
                path, *_ = json.loads(user)
                yield Path(path), listener


def _absent(state: InstallState, machine: Machine) -> Iterator[str]:
    """Yields advice for files that led to mcpproxy's ports and may come back, because no record of them remains."""
    for path, listener in _used_files(state):
        yield (
            f"{machine.shown(path)}, which led to mcpproxy, is missing or empty; if it comes back, write "
            f"{listener.upstream} in place of http://{HOST}:{listener.port} in it"
        )


def _written_elsewhere(state: InstallState, inventories: list[ClientInventory]) -> Path | None:
    """A file that leads to one of mcpproxy's ports, or is as `install` wrote it, such as the file of another project.

    The files in the inventories are left out, as it is known which of their entries are routed.
    """
    known = {os.path.realpath(path) for inventory in inventories for path in inventory.files}
    for path, _ in _used_files(state):
        try:
            is_empty = not read_file(path).strip()
        except (FileNotFoundError, NotADirectoryError):
            is_empty = True
        except (OSError, ValueError):
            is_empty = False
        if not is_empty:
            return path
    for name, written in state.files.items():
        if name in known:
            continue
        try:
            data = read_file(Path(name))
        except (OSError, ValueError):
            continue
        now = digest(data)
        if now in written.after and now != written.base and PASSES.encode() in data:
            return Path(name)
    return None


def _say_left(todo: list[Plan], machine: Machine) -> int:
    """Name the entries that cannot be restored, and why; returns the exit code."""
    code = int(Exit.FINE)
    for change in (change for plan in todo for change in plan.changes if change.action == "skip"):
        code = fail(f"{change.server.name} in {machine.shown(change.server.file)} was not restored: {change.reason}")
    return code


def _say_by_hand(todo: list[Plan], options: argparse.Namespace) -> None:
    """Print how to unwrap the entries that stay because `install` did not write them."""
    if options.format == "json":
        return
    for change in (change for plan in todo for change in plan.changes if change.action == "keep"):
        sys.stdout.write(f"To unwrap it as well: {_unwrapping(change.server)}\n")


def _unwrapping(server: Server) -> str:
    """The command that unwraps an entry that was wrapped by hand."""
    scope = "" if server.config.scope == "user" else f" --scope {server.config.scope}"
    name = shlex.quote(sanitise(server.name, None))
    return f"mcpproxy uninstall {server.client.id}{scope} --server {name}"


def _nothing(
    inventories: list[ClientInventory], unknown: list[Server], state: InstallState, options: argparse.Namespace
) -> str:
    """Returns what to print if none of the chosen servers is routed."""
    routed = [server for known in inventories for server in known.servers if is_routed(server, state)]
    scopes = [server.config.scope for server in (*routed, *unknown)]
    elsewhere = len([scope for scope in scopes if scope != options.scope])
    if not elsewhere or options.server:
        return "Nothing to restore; see mcpproxy status."
    where, other = ("project files", "project") if options.scope == "user" else ("your own files", "user")
    verb = "is" if elsewhere == 1 else "are"
    return f"Nothing to restore here; {count_text(elsewhere, 'server')} in {where} {verb} routed: --scope {other}"


def _say_of_unit(machine: Machine, state: InstallState) -> None:
    """Name the unit of `mcpproxy up`, if it is no longer needed."""
    unit = unit_path(machine)
    if unit.exists() and not state.listeners:
        how = "systemctl --user disable --now mcpproxy" if machine.system == "linux" else f"launchctl unload {unit}"
        sys.stdout.write(f"{machine.shown(unit)} is no longer needed: stop it with {how}, then delete the file\n")
