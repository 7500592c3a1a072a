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
    add_choice,
    chosen_clients,
    elsewhere_lines,
    find_all,
    is_chosen,
    next_lines,
    say_broken,
    say_shared,
    stops_before_writing,
    write_all,
    write_service,
)
from mcpproxy.clients.addresses import loopback_proxy
from mcpproxy.clients.client import Client
from mcpproxy.clients.installer import Plan, plans, routing
from mcpproxy.clients.listeners import listener_of
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.probe import Probe, probe_all
from mcpproxy.clients.recovery import recover
from mcpproxy.clients.servers import ClientInventory
from mcpproxy.clients.state import InstallState, locked, read_state, state_folder
from mcpproxy.clients.up_lock import listening_up
from mcpproxy.clients.wrapper import NoProgram, Wrapper, program_words
from mcpproxy.doctor.trust import trust_in
from mcpproxy.recorder.machine_name import machine_name
from mcpproxy.report.output import width_of_stdout
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.wrapping import wrapped

UP_LISTENS_S: Final = 5.0
"""How long a running `up`, which looks once a second, is given to listen for the servers that were routed."""


def parser() -> argparse.ArgumentParser:
    """The arguments of `install`."""
    parser = Parser("install", __doc__)
    add_choice(parser, "route")
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
        wrapper = Wrapper(program_words(), _capture_directory(options.capture), _chosen_machine(options.machine))
        machine = Machine.here()
    except (ValueError, NoProgram, OSError) as error:
        return fail(str(error))
    inventories = find_all(clients, machine)
    if machine.system == "windows":
        return _only_found(inventories, machine)
    _say_windows_side(clients, machine)
    code = say_broken(inventories, machine)
    state = read_state()
    recover(state, machine)
    probes = _probed(inventories, options, state, machine)
    todo = plans(inventories, routing(wrapper, state, probes, options.ways), lambda server: is_chosen(server, options))
    listing = RoutePrinter(machine, state.listeners, as_json=options.format == "json")
    if not todo:
        return fail(_nothing(options, machine)) if code == Exit.FINE else code
    for plan in list(todo):
        real = plan.path.resolve()
        if plan.config.scope == "project" and not real.is_relative_to(machine.project.resolve()):
            todo.remove(plan)
            code = fail(f"{machine.shown(plan.path)} is left alone: it is a link to {real}, outside the project")
    stop = stops_before_writing(todo, listing, options, "Route", "routed")
    if stop is not None:
        return max(code, stop)
    with locked() as state:
        recover(state, machine)
        written, written_code = write_all(todo, routing(wrapper, state, probes, options.ways), state, listing)
        named = _name_machine(todo, wrapper.machine, state)
    if options.format != "json":
        sys.stdout.writelines(f"{line}\n" for line in elsewhere_lines(inventories))
        if named:
            shown = sanitise(", ".join(named), 200)
            say(f"captures of {shown} will have the machine name {options.machine} after a restart of mcpproxy up")
        _say_what_next(todo, written, machine, state, wrapper)
    elif unreached := _listener_line(todo):
        say(unreached)
    if options.service:
        code = max(code, write_service(machine, wrapper.program))
    say_shared(written, machine)
    return max(code, written_code)


def _only_found(inventories: list[ClientInventory], machine: Machine) -> int:
    """On Windows, name the files, and leave them alone."""
    for inventory in inventories:
        for path in inventory.files:
            sys.stdout.write(f"{inventory.client.title}  {sanitise(machine.shown(path), None)}\n")
    return fail("mcpproxy cannot record on Windows yet, so nothing was written; to record, run it inside WSL")


def _probed(
    inventories: list[ClientInventory], options: argparse.Namespace, state: InstallState, machine: Machine
) -> dict[str, Probe]:
    """Returns how the chosen servers with a URL that are not routed yet respond to a request without credentials.

    No request goes to an address from a repository that the user has not approved.
    """
    urls: dict[str, bool] = {}
    for server in (server for inventory in inventories for server in inventory.servers):
        if server.url and is_chosen(server, options) and listener_of(server.url[1], state.listeners) is None:
            url = server.url[1]
            urls[url] = urls.get(url, False) or trust_in(server, machine).is_approved
    asked = probe_all(
        [url for url, ok in urls.items() if ok and url.startswith(("http://", "https://")) and "$" not in url]
    )
    return asked | {url: Probe("unapproved") for url, is_approved in urls.items() if not is_approved}


def _name_machine(todo: list[Plan], name: str, state: InstallState) -> list[str]:
    """Record the machine's name for the servers with a URL; returns the names of those for which it is new."""
    changes = [change for plan in todo for change in plan.changes if change.listener is not None]
    chosen = {(change.listener.name, change.listener.upstream) for change in changes if change.listener is not None}
    named = [
        listener
        for listener in state.listeners
        if (listener.name, listener.upstream) in chosen and name not in ("", listener.machine)
    ]
    for listener in named:
        listener.machine = name
    if named:
        state.save()
    return [listener.name for listener in named]


def _chosen_machine(given: str | None) -> str:
    """Returns the given name, or the one in the environment, which clients may not pass on, or else an empty text.

    Raises:
        ValueError: the name in the environment is invalid.
    """
    name, is_chosen = machine_name(given or "") or ("", False)
    return name if is_chosen else ""


def _capture_directory(named: str | None) -> Path | None:
    """Returns the directory for captures, if `run` would not find it by itself: clients do not pass variables on.

    Raises:
        ValueError: the directory cannot be written into a client's configuration.
    """
    value = named or os.environ.get("MCPPROXY_CAPTURES")
    if value:
        return Path(os.path.abspath(value))
    return None


def _nothing(options: argparse.Namespace, machine: Machine) -> str:
    if options.server:
        names = ", ".join(options.server)
        return f"no {options.scope} file has a server {names}; see mcpproxy install --dry-run --scope {options.scope}"
    if options.scope == "project":
        return f"no client has servers in the project {machine.shown(machine.project)}; docs/clients.md lists the files"
    who = ", ".join(options.client) or "no client on this machine"
    has = ": no server" if options.client else " has a server"
    return f"{who}{has} in your own configuration files; docs/clients.md lists the files"


def _say_windows_side(clients: list[Client], machine: Machine) -> None:
    """Inside WSL, name the files of the Windows side, which are left alone."""
    for windows in machine.windows_side():
        for inventory in find_all(clients, windows):
            for path in inventory.files:
                say(f"{path} of {inventory.client.title} on Windows is left alone: mcpproxy cannot record there yet")


def _warn_about_proxy(written: list[Plan]) -> None:
    """Warn if a client would send requests for mcpproxy's listeners to the proxy."""
    titles = dict.fromkeys(plan.client.title for plan in written if plan.client.proxies_loopback)
    if titles and loopback_proxy("127.0.0.1", os.environ):
        say(
            f"{', '.join(titles)} may send requests for 127.0.0.1 to your proxy; to prevent that, "
            "set NO_PROXY=127.0.0.1,localhost,::1 before you start a client"
        )


def _listened_for(plans: list[Plan], *, before: bool) -> dict[int, str]:
    """The servers that `up` listens for, by port: the ones that were routed before, or the ones that are routed now."""
    changes = (change for plan in plans for change in plan.changes if (change.action == "keep") is before)
    return {change.listener.port: change.server.name for change in changes if change.listener is not None}


def _listener_line(plans: list[Plan]) -> str:
    """Returns a line on whether clients can reach the servers with a URL; waits a moment for an `up` that is running.

    For servers that were routed before, it returns a line only if they cannot be reached.
    """
    routed = _listened_for(plans, before=False)
    was_routed = not routed
    routed = routed or _listened_for(plans, before=True)
    if not routed:
        return ""
    up = listening_up(state_folder(), routed, UP_LISTENS_S)
    if up is None:
        return (
            f"Clients cannot reach {_names(routed.values())} until mcpproxy up runs. Start it now and keep it running, "
            "or run mcpproxy up --service to have it start when you log in"
        )
    silent = [name for port, name in routed.items() if port not in up.ports]
    if not silent:
        if was_routed:
            return ""
        return f"mcpproxy up is running, and records {_names(routed.values())} from now on"
    return (
        f"mcpproxy up is running, but does not listen for {_names(silent)}, so clients cannot reach "
        f"{'it' if len(silent) == 1 else 'them'}. Check its output in its terminal or log, or restart it"
    )


def _names(names: Iterable[str]) -> str:
    return sanitise(", ".join(sorted(set(names))), 200)


def _capture_lines(wrapper: Wrapper, machine: Machine) -> str:
    """The lines that say where captures go, and that they grow."""
    folder = sanitise(machine.shown(wrapper.capture or Path(captures_root())), None)
    most = f"{RING_BYTES >> 30} GiB"
    return f"Captures go to {folder}, up to {most} per session, and stay until you delete them with mcpproxy prune"


def _say_what_next(
    todo: list[Plan], written: list[Plan], machine: Machine, state: InstallState, wrapper: Wrapper
) -> None:
    width = width_of_stdout()
    if written:
        sys.stdout.write(f"Backups are in {machine.shown(state.backups)}\n")
        sys.stdout.writelines(f"{line}\n" for line in wrapped(_capture_lines(wrapper, machine), width))
    sys.stdout.flush()
    reached = _listener_line(todo)
    if reached:
        sys.stdout.writelines(f"{line}\n" for line in wrapped(reached, width))
        _warn_about_proxy(todo)
    if written:
        sys.stdout.writelines(f"{line}\n" for line in next_lines(written))
        sys.stdout.write("Then run: mcpproxy status --wait\n")
