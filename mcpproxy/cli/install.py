"""Route the servers of your MCP clients through mcpproxy: `run` is put in front of each server's command.

Without a CLIENT, it lists what it finds and asks first. It edits only server entries, keeps comments, order and layout,
and backs up each file. `mcpproxy uninstall` undoes the edits.
"""

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from captures.file import RING_BYTES
from captures.paths import captures_root
from mcpproxy.cli.arguments import Parser, add_json, add_machine
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.routes import (
    RoutePrinter,
    add_client_arguments,
    chosen_clients,
    confirm_changes,
    elsewhere_lines,
    find_inventories,
    is_chosen,
    next_lines,
    report_broken_files,
    warn_about_shared_files,
    write_plans,
    write_service,
)
from mcpproxy.clients.addresses import loopback_proxy_variable
from mcpproxy.clients.client import Client
from mcpproxy.clients.installer import FilePlan, file_plans, route_decision
from mcpproxy.clients.listeners import listener_of
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.probe import Probe, probe_all
from mcpproxy.clients.recovery import recover_records
from mcpproxy.clients.servers import ClientInventory
from mcpproxy.clients.state import InstallState, lock_state, read_state, state_folder
from mcpproxy.clients.up_lock import wait_until_listening
from mcpproxy.clients.wrapper import NoProgram, Wrapper, program_words
from mcpproxy.doctor.trust import trust_in
from mcpproxy.recorder.machine_name import machine_name
from mcpproxy.report.output import width_of_stdout
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.wrapping import wrapped

UP_TIMEOUT_S: Final = 5.0
"""How long to wait until a running `up`, which polls once a second, listens for the routed servers."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `install`."""
    parser = Parser("install", __doc__)
    add_client_arguments(parser, "route")
    parser.add_argument(
        "--capture",
        metavar="DIR",
        help="record into folders below this directory (default: the same place as `run`)",
    )
    add_machine(
        parser,
        "the name of this machine in captures, written into the entries (default: MCPPROXY_MACHINE, if it is set)",
    )
    parser.add_argument(
        "--bridge",
        dest="ways",
        action="append_const",
        const="bridge",
        default=[],
        help="use mcp-remote to record servers that need OAuth: their messages, but not their HTTP traffic",
    )
    parser.add_argument(
        "--oauth-resource",
        dest="ways",
        action="append_const",
        const="oauth-resource",
        help="in Codex, record servers that need OAuth by adding `oauth_resource` to their entries",
    )
    parser.add_argument(
        "--service",
        action="store_true",
        help="also write a systemd or launchd unit that starts `mcpproxy up` at login; HTTP servers need it",
    )
    add_json(parser)
    return parser


def run(arguments: list[str]) -> int:
    """Route the chosen servers; returns 2 if a file could not be read or written."""
    options = parser().parse_args(arguments)
    try:
        clients = chosen_clients(options)
        wrapper = Wrapper(
            program_words(), _requested_capture_directory(options.capture), _requested_machine_name(options.machine)
        )
        machine = Machine.current()
    except (ValueError, NoProgram, OSError) as error:
        return fail(str(error))
    inventories = find_inventories(clients, machine)
    if machine.system == "windows":
        return _list_windows_files(inventories, machine)
    _report_windows_files(clients, machine)
    code = report_broken_files(inventories, machine)
    state = read_state()
    recover_records(state, machine)
    probes = _probe_unrouted(inventories, options, state, machine)
    pending_plans = file_plans(
        inventories, route_decision(wrapper, state, probes, options.ways), lambda server: is_chosen(server, options)
    )
    listing = RoutePrinter(machine, state.listeners, as_json=options.format == "json")
    if not pending_plans:
        return fail(_no_server_error(options, machine)) if code == Exit.FINE else code
    for plan in list(pending_plans):
        real_path = plan.path.resolve()
        if plan.config.scope == "project" and not real_path.is_relative_to(machine.project.resolve()):
            pending_plans.remove(plan)
            code = fail(
                f"{machine.display_path(plan.path)} is left alone: it is a link to {real_path}, outside the project"
            )
    stop_code = confirm_changes(pending_plans, listing, options, "Route", "routed")
    if stop_code is not None:
        return max(code, stop_code)
    with lock_state() as state:
        recover_records(state, machine)
        written_plans, written_code = write_plans(
            pending_plans, route_decision(wrapper, state, probes, options.ways), state, listing
        )
        renamed_servers = _set_machine_name(pending_plans, wrapper.machine, state)
    if options.format != "json":
        sys.stdout.writelines(f"{line}\n" for line in elsewhere_lines(inventories))
        if renamed_servers:
            server_list = sanitise(", ".join(renamed_servers), 200)
            say(
                f"captures of {server_list} will have the machine name {options.machine} after a restart of mcpproxy up"
            )
        _print_next_steps(pending_plans, written_plans, machine, state, wrapper)
    elif listener_line := _listener_line(pending_plans):
        say(listener_line)
    if options.service:
        code = max(code, write_service(machine, wrapper.program))
    warn_about_shared_files(written_plans, machine)
    return max(code, written_code)


def _list_windows_files(inventories: list[ClientInventory], machine: Machine) -> int:
    """List the configuration files on Windows, where mcpproxy cannot record yet; returns the exit code."""
    for inventory in inventories:
        for path in inventory.files:
            sys.stdout.write(f"{inventory.client.title}  {sanitise(machine.display_path(path), None)}\n")
    return fail("mcpproxy cannot record on Windows yet, so nothing was written; to record, run it inside WSL")


def _probe_unrouted(
    inventories: list[ClientInventory], options: argparse.Namespace, state: InstallState, machine: Machine
) -> dict[str, Probe]:
    """Send a request without credentials to each chosen URL that is not routed yet; returns the results by URL.

    No request goes to an address from a repository that the user has not approved.
    """
    urls: dict[str, bool] = {}
    for server in (server for inventory in inventories for server in inventory.servers):
        if (
            server.url_member
            and is_chosen(server, options)
            and listener_of(server.url_member[1], state.listeners) is None
        ):
            url = server.url_member[1]
            urls[url] = urls.get(url, False) or trust_in(server, machine).is_approved
    probes = probe_all(
        [
            url
            for url, is_approved in urls.items()
            if is_approved and url.startswith(("http://", "https://")) and "$" not in url
        ]
    )
    return probes | {url: Probe("unapproved") for url, is_trusted in urls.items() if not is_trusted}


def _set_machine_name(all_plans: list[FilePlan], name: str, state: InstallState) -> list[str]:
    """Set the machine name of the routed servers with a URL; returns the names of the servers that this changed."""
    changes = [change for plan in all_plans for change in plan.changes if change.listener is not None]
    routed_ids = {(change.listener.name, change.listener.upstream) for change in changes if change.listener is not None}
    changed_listeners = [
        listener
        for listener in state.listeners
        if (listener.name, listener.upstream) in routed_ids and name not in ("", listener.machine)
    ]
    for listener in changed_listeners:
        listener.machine = name
    if changed_listeners:
        state.save()
    return [listener.name for listener in changed_listeners]


def _requested_machine_name(requested_name: str | None) -> str:
    """Return the requested name, else the one in the environment, which clients may not pass on, else an empty text.

    Raises:
        ValueError: the name in the environment is invalid.
    """
    name, is_chosen = machine_name(requested_name or "") or ("", False)
    return name if is_chosen else ""


def _requested_capture_directory(requested_directory: str | None) -> Path | None:
    """Return the directory for captures if `run` needs to know it, because clients do not pass variables on.

    Raises:
        ValueError: the directory cannot be written into a client's configuration.
    """
    value = requested_directory or os.environ.get("MCPPROXY_CAPTURES")
    if value:
        return Path(os.path.abspath(value))
    return None


def _no_server_error(options: argparse.Namespace, machine: Machine) -> str:
    if options.server:
        names = ", ".join(options.server)
        return f"no {options.scope} file has a server {names}; see mcpproxy install --dry-run --scope {options.scope}"
    if options.scope == "project":
        return (
            f"no client has servers in the project {machine.display_path(machine.project)}; "
            "docs/clients.md lists the files"
        )
    clients_text = ", ".join(options.client) or "no client on this machine"
    predicate = ": no server" if options.client else " has a server"
    return f"{clients_text}{predicate} in your own configuration files; docs/clients.md lists the files"


def _report_windows_files(clients: list[Client], machine: Machine) -> None:
    """Inside WSL, list the configuration files of the Windows side, which are left alone."""
    for windows in machine.windows_machines():
        for inventory in find_inventories(clients, windows):
            for path in inventory.files:
                say(f"{path} of {inventory.client.title} on Windows is left alone: mcpproxy cannot record there yet")


def _warn_about_proxy(routed_plans: list[FilePlan]) -> None:
    """Warn if a client may send requests for mcpproxy's listeners to the user's HTTP proxy."""
    titles = dict.fromkeys(plan.client.title for plan in routed_plans if plan.client.proxies_loopback)
    if titles and loopback_proxy_variable("127.0.0.1", os.environ):
        say(
            f"{', '.join(titles)} may send requests for 127.0.0.1 to your proxy; to prevent that, "
            "set NO_PROXY=127.0.0.1,localhost,::1 before you start a client"
        )


def _server_by_port(plans: list[FilePlan], *, was_routed: bool) -> dict[int, str]:
    """Map ports of `up` to the names of their servers: those that were routed before, or those that are routed now."""
    changes = (change for plan in plans for change in plan.changes if (change.action == "keep") is was_routed)
    return {change.listener.port: change.server.name for change in changes if change.listener is not None}


def _listener_line(plans: list[FilePlan]) -> str:
    """Wait a moment for a running `up`; returns a line that says whether clients can reach the servers with a URL.

    If all of them were routed before and can be reached, the line is empty.
    """
    routes = _server_by_port(plans, was_routed=False)
    was_routed = not routes
    routes = routes or _server_by_port(plans, was_routed=True)
    if not routes:
        return ""
    up = wait_until_listening(state_folder(), routes, UP_TIMEOUT_S)
    if up is None:
        return (
            f"Clients cannot reach {_names_text(routes.values())} until mcpproxy up runs. Start it "
            "now and keep it running, "
            "or run mcpproxy up --service to have it start when you log in"
        )
    unserved_names = [name for port, name in routes.items() if port not in up.ports]
    if not unserved_names:
        if was_routed:
            return ""
        return f"mcpproxy up is running, and records {_names_text(routes.values())} from now on"
    return (
        f"mcpproxy up is running, but does not listen for {_names_text(unserved_names)}, so clients cannot reach "
        f"{'it' if len(unserved_names) == 1 else 'them'}. Check its output in its terminal or log, or restart it"
    )


def _names_text(names: Iterable[str]) -> str:
    return sanitise(", ".join(sorted(set(names))), 200)


def _capture_line(wrapper: Wrapper, machine: Machine) -> str:
    """Return a line that says where captures go, how large they become, and how to delete them."""
    folder = sanitise(machine.display_path(wrapper.capture or Path(captures_root())), None)
    limit = f"{RING_BYTES >> 30} GiB"
    return f"Captures go to {folder}, up to {limit} per session, and stay until you delete them with mcpproxy prune"


def _print_next_steps(
    all_plans: list[FilePlan], written_plans: list[FilePlan], machine: Machine, state: InstallState, wrapper: Wrapper
) -> None:
    width = width_of_stdout()
    if written_plans:
        sys.stdout.write(f"Backups are in {machine.display_path(state.backup_folder)}\n")
        sys.stdout.writelines(f"{line}\n" for line in wrapped(_capture_line(wrapper, machine), width))
    sys.stdout.flush()
    listener_line = _listener_line(all_plans)
    if listener_line:
        sys.stdout.writelines(f"{line}\n" for line in wrapped(listener_line, width))
        _warn_about_proxy(all_plans)
    if written_plans:
        sys.stdout.writelines(f"{line}\n" for line in next_lines(written_plans))
        sys.stdout.write("Then run: mcpproxy status --wait\n")
