"""Show which servers of your MCP clients are routed through mcpproxy, and when each last exchanged a frame.

An entry that is overridden by another entry of the same name is marked. With --wait, `status` waits until every routed
server has sent or received a frame since `install`, and says what to do in the client.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from captures.errors import CaptureError
from captures.file import is_live
from captures.reader import Capture
from mcpproxy import __version__
from mcpproxy.cli.arguments import Parser, add_json
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.routes import chosen_clients, elsewhere_lines, find_used_inventories, pad_cell, report_broken_files
from mcpproxy.clients.effective import effective_servers
from mcpproxy.clients.installer import is_routed
from mcpproxy.clients.last_frame import LastFrame, ServerCaptures, capture_location
from mcpproxy.clients.listeners import Listener
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.recovery import recover_records
from mcpproxy.clients.recovery import recovery_text as told_unknown
from mcpproxy.clients.servers import Server
from mcpproxy.clients.state import InstallState, read_state, state_folder
from mcpproxy.clients.unrecorded import note_text, unrecorded_servers
from mcpproxy.clients.up_lock import running_up
from mcpproxy.recorder.unrecorded import UnrecordedNote
from mcpproxy.report.output import json_line, width_of_stdout
from mcpproxy.report.waits import WaitingRequests, waits_in
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import utc
from mcpproxy.wording.waits import waiting_text

POLL_S: Final = 0.5
"""The pause between two checks of `--wait`."""
_MINUTE_NS: Final = 60_000_000_000
_MIN_COLUMN_CELLS: Final = 4
"""The minimum width of a column, in cells."""
_MIN_WAIT_NS: Final = 1_000_000_000
"""Requests that have waited for less than this are not listed: they are probably being answered."""
_MAX_READ_BYTES: Final = 64 << 20
"""The maximum size of a capture that is read for waiting requests; this takes one to two seconds."""
_MAX_NAMES: Final = 3
"""The maximum number of servers named in a line of advice."""


class ServerStatus(NamedTuple):
    """The state of one server in one client."""

    server: Server
    effective_entry: Server
    """The entry that the client uses: `server` itself, or the entry that overrides it."""
    is_routed: bool
    program: str
    """The mcpproxy program that routes it; empty if a listener routes it, or it is not routed."""
    listener: Listener | None
    """The listener that `up` runs for it, if it has a URL."""
    is_up: bool
    """Whether `up` is running; true if there is no listener."""
    is_listening: bool
    """Whether `up` listens on the listener's port; true if there is no listener."""
    last_frame: LastFrame | None
    unrecorded: UnrecordedNote | None
    """The note that it currently runs unrecorded, if it does."""

    @property
    def is_expected(self) -> bool:
        """Whether its frames will be recorded when the client uses it."""
        return self.is_routed and self.effective_entry is self.server and not self.server.is_disabled


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `status`."""
    parser = Parser("status", __doc__)
    parser.add_argument("client", nargs="*", metavar="CLIENT", help="clients by name (default: all that are found)")
    parser.add_argument("--wait", action="store_true", help="wait for the first frame of every routed server")
    add_json(parser)
    return parser


def run(arguments: list[str]) -> int:
    """Show the servers; returns 2 if a file could not be read, or a listener is lost."""
    options = parser().parse_args(arguments)
    try:
        clients = chosen_clients(options)
        machine = Machine.current()
        state = read_state()
        lost_servers = recover_records(state, machine)
    except (ValueError, OSError) as error:
        return fail(str(error))
    inventories = find_used_inventories(clients, machine)
    code = report_broken_files(inventories, machine)
    servers = [server for inventory in inventories for server in inventory.servers]
    if not servers and code == Exit.FINE:
        return fail("no server was found in the configuration files of your clients; docs/clients.md lists the files")
    captures = ServerCaptures()
    if options.wait:
        _wait_for_frames(servers, machine, state, captures)
    for server in lost_servers:
        if server.client in clients:
            code = fail(told_unknown(server, machine))
    rows = _server_statuses(servers, machine, state, captures)
    if options.format == "json":
        waits = {id(row): waits for row, waits in _waiting_requests(rows)}
        sys.stdout.writelines(json_line(_as_json(row, waits.get(id(row)))) for row in rows)
    else:
        sys.stdout.writelines(f"{line}\n" for line in [*_table(rows), *elsewhere_lines(inventories)])
    return code


def _server_statuses(
    servers: list[Server], machine: Machine, state: InstallState, captures: ServerCaptures
) -> list[ServerStatus]:
    used_entries = effective_servers(servers, machine)
    up = running_up(state_folder())
    places = {id(server): capture_location(server, state) for server in servers}
    unrecorded_notes = {note.name: note for note in unrecorded_servers()}
    captures.rescan(places.values())
    rows = []
    for server in servers:
        place = places[id(server)]
        last_frame = None if place is None else captures.last_frame(place, server.client.client_info_prefixes)
        listener = None if place is None else place.listener
        is_up = listener is None or up is not None
        is_listening = listener is None or (up is not None and listener.port in up.ports)
        program = "" if server.wrapped_command is None else server.wrapped_command.program
        note = None if place is None else unrecorded_notes.get(place.name)
        rows.append(
            ServerStatus(
                server,
                used_entries[id(server)],
                is_routed(server, state),
                program,
                listener,
                is_up,
                is_listening,
                last_frame,
                note,
            )
        )
    return rows


def _as_json(row: ServerStatus, waits: WaitingRequests | None) -> dict[str, Any]:
    server, last_frame = row.server, row.last_frame
    waiting_requests = [] if waits is None else waits.oldest_first
    return {
        "client": server.client.id,
        "server": server.name,
        "scope": server.scope,
        "project": server.project or None,
        "file": str(server.file),
        "kind": server.kind,
        "off": server.is_disabled,
        "effective": row.effective_entry is server,
        "overridden_by": None if row.effective_entry is server else str(row.effective_entry.file),
        "routed": row.is_routed,
        "program": row.program or None,
        "listening": None if row.listener is None else row.is_listening,
        "version": _version(last_frame),
        "last_frame": None if last_frame is None else utc(last_frame.wall_ns),
        "heard_from": None if last_frame is None else last_frame.client,
        "parent": None if last_frame is None else last_frame.parent_program,
        "capture": None if last_frame is None else str(last_frame.capture),
        "waiting": len(waiting_requests),
        "waiting_ms": waits.waited_ns(waiting_requests[0]) / 1e6 if waits is not None and waiting_requests else None,
        "unrecorded_since": None if row.unrecorded is None else utc(row.unrecorded.since_ns),
        "unrecorded_why": None if row.unrecorded is None else row.unrecorded.why or None,
    }


def _version(last_frame: LastFrame | None) -> str | None:
    return (
        None
        if last_frame is None or last_frame.tool_version is None
        else last_frame.tool_version.removeprefix("mcpproxy ")
    )


def _table(rows: list[ServerStatus]) -> list[str]:
    head = ("client", "server", "scope", "routed", "last frame")
    now_ns = time.time_ns()
    table = [
        head,
        *(
            (row.server.client.id, row.server.name, row.server.scope, _routed_text(row), _last_frame_text(row, now_ns))
            for row in rows
        ),
    ]
    texts = [[sanitise(cell, 200) for cell in row] for row in table]
    width = width_of_stdout()
    widths = _fitting_widths([max(cells(row[at]) for row in texts) for at in range(len(head))], width)
    lines = ["  ".join(map(pad_cell, row, widths)).rstrip() for row in texts]
    routed_count = sum(row.is_routed for row in rows)
    broken_count = sum(_is_program_missing(row) for row in rows)
    broken_text = f", {broken_count} of them through a missing program" if broken_count else ""
    lines += ["", f"{count_text(len(rows), 'server')}, {routed_count} routed{broken_text}"]
    unrouted_scopes = {row.server.config.scope for row in rows if not row.is_routed}
    if unrouted_scopes:
        command = "mcpproxy install" if "user" in unrouted_scopes else "mcpproxy install --scope project"
        lines[-1] += f"; {command} routes the rest, or says why it cannot"
    lines += _advice(rows)
    lines += _waiting_lines(rows)
    if any(row.is_expected and row.last_frame is None for row in rows):
        lines.append("If a server stays silent, run mcpproxy doctor to find out why")
    return lines


def _waiting_requests(rows: list[ServerStatus]) -> Iterator[tuple[ServerStatus, WaitingRequests]]:
    """Yield routed servers with their waiting requests; servers without waiting requests are left out."""
    read_paths: set[Path] = set()
    for row in rows:
        path = None if row.last_frame is None or not row.is_routed else row.last_frame.capture
        if path is None or path in read_paths:
            continue
        read_paths.add(path)
        try:
            capture = Capture(path)
            if is_live(capture.segments[-1]) and capture.size <= _MAX_READ_BYTES:
                waits = waits_in(path)
                if waits.oldest_first:
                    yield row, waits
        except CaptureError:
            continue


def _waiting_lines(rows: list[ServerStatus]) -> Iterator[str]:
    """Yield lines about waiting requests: their number, how long the oldest has waited, and what happened since."""
    for row, waits in _waiting_requests(rows):
        long_waits = [wait for wait in waits.oldest_first if waits.waited_ns(wait) >= _MIN_WAIT_NS]
        if long_waits:
            yield f"{sanitise(row.server.name, 40)}: {waiting_text(len(long_waits), waits.waited_ns(long_waits[0]))}"
            yield from (f"  {waits.text(wait)}" for wait in long_waits[:_MAX_NAMES])


def _fitting_widths(widths: list[int], width: int) -> list[int]:
    """Return column widths that fit into `width` cells: the widest columns shrink first, down to a few cells each."""
    available = width - 2 * (len(widths) - 1)
    while sum(widths) > available and max(widths) > _MIN_COLUMN_CELLS:
        widest = max(range(len(widths)), key=lambda at: widths[at])
        widths[widest] -= 1
    return widths


def _advice(rows: list[ServerStatus]) -> Iterator[str]:
    """Yield advice on routes that do not work."""
    unreachable_names = sorted({row.server.name for row in rows if row.is_routed and not row.is_up})
    if unreachable_names:
        yield f"Clients cannot reach {_names_text(unreachable_names)} until you run mcpproxy up"
    unserved_names = sorted({row.server.name for row in rows if row.is_routed and row.is_up and not row.is_listening})
    if unserved_names:
        yield f"mcpproxy up cannot listen for {_names_text(unserved_names)}; its output in its terminal or log says why"
    for note in dict.fromkeys(row.unrecorded for row in rows if row.unrecorded is not None):
        yield sanitise(f"{note_text(note)}; restart it to record it again", None)
    broken_names = sorted({row.server.name for row in rows if _is_program_missing(row)})
    if broken_names:
        yield (
            f"The mcpproxy in the entries of {_names_text(broken_names)} is missing; run mcpproxy install to replace it"
        )


def _names_text(names: list[str]) -> str:
    shown_names = ", ".join(sanitise(name, 40) for name in names[:_MAX_NAMES])
    return shown_names if len(names) <= _MAX_NAMES else f"{shown_names} and {len(names) - _MAX_NAMES} more"


def _is_program_missing(row: ServerStatus) -> bool:
    wrapped_command = row.server.wrapped_command
    return row.is_routed and wrapped_command is not None and not wrapped_command.program_exists


def _routed_text(row: ServerStatus) -> str:
    if not row.is_routed:
        return "no"
    if row.server.is_disabled:
        return "yes, but switched off"
    if row.effective_entry is not row.server:
        return f"yes; {row.effective_entry.scope} entry wins"
    if _is_program_missing(row):
        return "through a missing program"
    if not row.is_up:
        return "yes, but up is not running"
    if not row.is_listening:
        return "yes, but its port is taken"
    if row.unrecorded is not None:
        return "yes, but it runs unrecorded"
    version = _version(row.last_frame)
    return f"yes, by {version}" if version not in (None, __version__) else "yes"


def _last_frame_text(row: ServerStatus, now_ns: int) -> str:
    if not row.is_routed:
        return ""
    if row.last_frame is None:
        return "never"
    peer = row.last_frame.client or row.last_frame.parent_program
    return f"{_age_text(now_ns - row.last_frame.wall_ns)}{f', {peer}' if peer else ''}"


def _age_text(age_ns: int) -> str:
    for unit_ns, unit in ((1440 * _MINUTE_NS, "d"), (60 * _MINUTE_NS, "h"), (_MINUTE_NS, "min")):
        if age_ns >= unit_ns:
            return f"{age_ns // unit_ns} {unit} ago"
    return "just now"


def _wait_for_frames(servers: list[Server], machine: Machine, state: InstallState, captures: ServerCaptures) -> None:
    """Wait until each routed server has exchanged a frame since it was routed; skip entries that clients do not use."""
    announced_clients: set[str] = set()
    recorded_servers: set[int] = set()
    while True:
        rows = [row for row in _server_statuses(servers, machine, state, captures) if row.is_expected]
        for row in rows:
            if id(row.server) not in recorded_servers and _has_frame_since_install(row, state):
                recorded_servers.add(id(row.server))
                say(f"{row.server.client.title}: first frame of {row.server.name} recorded")
        silent_rows = [row for row in rows if id(row.server) not in recorded_servers]
        if not silent_rows:
            return
        for row in silent_rows:
            client = row.server.client
            if client.id not in announced_clients:
                announced_clients.add(client.id)
                client_rows = [client_row for client_row in silent_rows if client_row.server.client is client]
                names = ", ".join(sorted({client_row.server.name for client_row in client_rows}))
                first_step = "" if all(client_row.is_up for client_row in client_rows) else "run mcpproxy up, and "
                say(f"waiting for {names}: {first_step}in {client.title}, {client.step_after_edit or 'use the server'}")
        time.sleep(POLL_S)


def _has_frame_since_install(row: ServerStatus, state: InstallState) -> bool:
    record = state.record_of(row.server.file)
    since_ns = 0 if record is None else int(record.at_s * 1e9)
    return row.last_frame is not None and row.last_frame.wall_ns >= since_ns
