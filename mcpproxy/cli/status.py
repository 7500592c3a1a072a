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
from mcpproxy.cli.routes import chosen_clients, elsewhere_lines, find_used, padded, say_broken
from mcpproxy.clients.effective import effective
from mcpproxy.clients.installer import is_routed
from mcpproxy.clients.last_frame import LastFrame, ServerCaptures, place_of
from mcpproxy.clients.listeners import Listener
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.recovery import recover
from mcpproxy.clients.recovery import recovery_text as told_unknown
from mcpproxy.clients.servers import Server
from mcpproxy.clients.state import InstallState, read_state, state_folder
from mcpproxy.clients.unrecorded import note_text, unrecorded
from mcpproxy.clients.up_lock import running_up
from mcpproxy.recorder.unrecorded import Note
from mcpproxy.report.output import json_line, width_of_stdout
from mcpproxy.report.waits import Waits, waiting_text, waits_in
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import utc

LOOK_S: Final = 0.5
"""The pause between two checks of `--wait`."""
_MIN_NS: Final = 60_000_000_000
_NARROWEST: Final = 4
"""The least width of a column."""
_WAITS_NS: Final = 1_000_000_000
"""Requests that have waited less than this are not listed: they are probably being answered."""
_WAITS_BYTES: Final = 64 << 20
"""The size up to which a capture is read for waiting requests; this takes one to two seconds."""
_NAMES: Final = 3
"""The maximum number of servers named in a line of advice."""


class ServerStatus(NamedTuple):
    """One server of one client."""

    server: Server
    used: Server
    """The entry that the client uses: `server` itself, or the entry that overrides it."""
    is_routed: bool
    program: str
    """The installation that routes it; empty for a listener, and if it is not routed."""
    listener: Listener | None
    """The listener that `up` runs for it, if it has a URL."""
    is_up: bool
    """Whether `up` is running, if it has a listener."""
    is_listening: bool
    """Whether something listens there; true if there is no listener."""
    last: LastFrame | None
    unrecorded: Note | None
    """The text that it currently runs unrecorded."""

    @property
    def is_expected(self) -> bool:
        """Whether its frames will be recorded once the client uses it."""
        return self.is_routed and self.used is self.server and not self.server.is_disabled


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `status`."""
    parser = Parser("status", __doc__)
    parser.add_argument("client", nargs="*", metavar="CLIENT", help="clients by name (default: all that are found)")
    parser.add_argument("--wait", action="store_true", help="wait for the first frame of every routed server")
    add_json(parser)
    return parser


def run(arguments: list[str]) -> int:
    """Show the servers; returns 2 if a file could not be read."""
    options = parser().parse_args(arguments)
    try:
        clients = chosen_clients(options)
        machine = Machine.here()
        state = read_state()
        unknown = recover(state, machine)
    except (ValueError, OSError) as error:
        return fail(str(error))
    inventories = find_used(clients, machine)
    code = say_broken(inventories, machine)
    servers = [server for inventory in inventories for server in inventory.servers]
    if not servers and code == Exit.FINE:
        return fail("no server was found in the configuration files of your clients; docs/clients.md lists the files")
    captures = ServerCaptures()
    if options.wait:
        _wait(servers, machine, state, captures)
    for server in unknown:
        if server.client in clients:
            code = fail(told_unknown(server, machine))
    rows = _rows(servers, machine, state, captures)
    if options.format == "json":
        waits = {id(row): waits for row, waits in _waiting_requests(rows)}
        sys.stdout.writelines(json_line(_as_json(row, waits.get(id(row)))) for row in rows)
    else:
        sys.stdout.writelines(f"{line}\n" for line in [*_table(rows), *elsewhere_lines(inventories)])
    return code


def _rows(servers: list[Server], machine: Machine, state: InstallState, captures: ServerCaptures) -> list[ServerStatus]:
    used = effective(servers, machine)
    up = running_up(state_folder())
    places = {id(server): place_of(server, state) for server in servers}
    running = {note.name: note for note in unrecorded()}
    captures.rescan(places.values())
    rows = []
    for server in servers:
        place = places[id(server)]
        last = None if place is None else captures.last_frame(place, server.client.speaks_as)
        listener = None if place is None else place.listener
        is_up = listener is None or up is not None
        is_listening = listener is None or (up is not None and listener.port in up.ports)
        program = "" if server.routed is None else server.routed.program
        note = None if place is None else running.get(place.name)
        rows.append(
            ServerStatus(
                server, used[id(server)], is_routed(server, state), program, listener, is_up, is_listening, last, note
            )
        )
    return rows


def _as_json(row: ServerStatus, waits: Waits | None) -> dict[str, Any]:
    server, last = row.server, row.last
    waiting = [] if waits is None else waits.all
    return {
        "client": server.client.id,
        "server": server.name,
        "scope": server.scope,
        "project": server.project or None,
        "file": str(server.file),
        "kind": server.kind,
        "off": server.is_disabled,
        "effective": row.used is server,
        "overridden_by": None if row.used is server else str(row.used.file),
        "routed": row.is_routed,
        "program": row.program or None,
        "listening": None if row.listener is None else row.is_listening,
        "version": _version(last),
        "last_frame": None if last is None else utc(last.wall_ns),
        "heard_from": None if last is None else last.client,
        "parent": None if last is None else last.parent,
        "capture": None if last is None else str(last.capture),
        "waiting": len(waiting),
        "waiting_ms": waits.waited_ns(waiting[0]) / 1e6 if waits is not None and waiting else None,
        "unrecorded_since": None if row.unrecorded is None else utc(row.unrecorded.since_ns),
        "unrecorded_why": None if row.unrecorded is None else row.unrecorded.why or None,
    }


def _version(last: LastFrame | None) -> str | None:
    return None if last is None or last.tool is None else last.tool.removeprefix("mcpproxy ")


def _table(rows: list[ServerStatus]) -> list[str]:
    head = ("client", "server", "scope", "routed", "last frame")
    now = time.time_ns()
    table = [head, *((r.server.client.id, r.server.name, r.server.scope, _routed(r), _heard(r, now)) for r in rows)]
    texts = [[sanitise(cell, 200) for cell in row] for row in table]
    width = width_of_stdout()
    widths = _fitting([max(cells(row[at]) for row in texts) for at in range(len(head))], width)
    lines = ["  ".join(map(padded, row, widths)).rstrip() for row in texts]
    routed = sum(row.is_routed for row in rows)
    gone = sum(_is_gone(row) for row in rows)
    missing = f", {gone} of them by a missing program" if gone else ""
    lines += ["", f"{count_text(len(rows), 'server')}, {routed} routed{missing}"]
    left = {row.server.config.scope for row in rows if not row.is_routed}
    if left:
        command = "mcpproxy install" if "user" in left else "mcpproxy install --scope project"
        lines[-1] += f"; {command} routes the rest, or says why it cannot"
    lines += _advice(rows)
    lines += _waiting_lines(rows)
    if any(row.is_expected and row.last is None for row in rows):
        lines.append("If a server stays silent, run mcpproxy doctor to find out why")
    return lines


def _waiting_requests(rows: list[ServerStatus]) -> Iterator[tuple[ServerStatus, Waits]]:
    """Each routed server with waiting requests, once, with these requests."""
    read: set[Path] = set()
    for row in rows:
        path = None if row.last is None or not row.is_routed else row.last.capture
        if path is None or path in read:
            continue
        read.add(path)
        try:
            capture = Capture(path)
            if is_live(capture.segments[-1]) and capture.size <= _WAITS_BYTES:
                waits = waits_in(path)
                if waits.all:
                    yield row, waits
        except CaptureError:
            continue


def _waiting_lines(rows: list[ServerStatus]) -> Iterator[str]:
    """The lines about waiting requests: how many, how long the oldest has waited, and what has happened since."""
    for row, waits in _waiting_requests(rows):
        every = [wait for wait in waits.all if waits.waited_ns(wait) >= _WAITS_NS]
        if every:
            yield f"{sanitise(row.server.name, 40)}: {waiting_text(len(every), waits.waited_ns(every[0]))}"
            yield from (f"  {waits.text(wait)}" for wait in every[:_NAMES])


def _fitting(widths: list[int], width: int) -> list[int]:
    """The widths of the columns in a line of `width` cells: the widest give way first, down to a few cells each."""
    room = width - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widest = max(range(len(widths)), key=lambda at: widths[at])
        widths[widest] -= 1
    return widths


def _advice(rows: list[ServerStatus]) -> Iterator[str]:
    """Advice on routes that do not work."""
    unreachable = sorted({row.server.name for row in rows if row.is_routed and not row.is_up})
    if unreachable:
        yield f"Clients cannot reach {_names(unreachable)} until you run mcpproxy up"
    not_listening = sorted({row.server.name for row in rows if row.is_routed and row.is_up and not row.is_listening})
    if not_listening:
        yield f"mcpproxy up cannot listen for {_names(not_listening)}; its output in its terminal or log says why"
    for note in dict.fromkeys(row.unrecorded for row in rows if row.unrecorded is not None):
        yield sanitise(f"{note_text(note)}; restart it to record it again", None)
    gone = sorted({row.server.name for row in rows if _is_gone(row)})
    if gone:
        yield f"The mcpproxy in the entries of {_names(gone)} is missing; run mcpproxy install to replace it"


def _names(names: list[str]) -> str:
    shown = ", ".join(sanitise(name, 40) for name in names[:_NAMES])
    return shown if len(names) <= _NAMES else f"{shown} and {len(names) - _NAMES} more"


def _is_gone(row: ServerStatus) -> bool:
    wrapped = row.server.routed
    return row.is_routed and wrapped is not None and not wrapped.is_there


def _routed(row: ServerStatus) -> str:
    if not row.is_routed:
        return "no"
    if row.server.is_disabled:
        return "yes, but switched off"
    if row.used is not row.server:
        return f"yes; {row.used.scope} entry wins"
    if _is_gone(row):
        return "by a missing program"
    if not row.is_up:
        return "yes, but up is not running"
    if not row.is_listening:
        return "yes, but its port is taken"
    if row.unrecorded is not None:
        return "yes, but it runs unrecorded"
    version = _version(row.last)
    return f"yes, by {version}" if version not in (None, __version__) else "yes"


def _heard(row: ServerStatus, now_ns: int) -> str:
    if not row.is_routed:
        return ""
    if row.last is None:
        return "never"
    who = row.last.client or row.last.parent
    return f"{_age(now_ns - row.last.wall_ns)}{f', {who}' if who else ''}"


def _age(age_ns: int) -> str:
    for size, unit in ((1440 * _MIN_NS, "d"), (60 * _MIN_NS, "h"), (_MIN_NS, "min")):
        if age_ns >= size:
            return f"{age_ns // size} {unit} ago"
    return "just now"


def _wait(servers: list[Server], machine: Machine, state: InstallState, captures: ServerCaptures) -> None:
    """Wait until every routed server that its client uses has exchanged a frame since it was routed."""
    announced: set[str] = set()
    heard: set[int] = set()
    while True:
        rows = [row for row in _rows(servers, machine, state, captures) if row.is_expected]
        for row in rows:
            if id(row.server) not in heard and _is_fresh(row, state):
                heard.add(id(row.server))
                say(f"{row.server.client.title}: first frame of {row.server.name} recorded")
        silent = [row for row in rows if id(row.server) not in heard]
        if not silent:
            return
        for row in silent:
            client = row.server.client
            if client.id not in announced:
                announced.add(client.id)
                own = [other for other in silent if other.server.client is client]
                names = ", ".join(sorted({other.server.name for other in own}))
                first = "" if all(other.is_up for other in own) else "run mcpproxy up, and "
                say(f"waiting for {names}: {first}in {client.title}, {client.after or 'use the server'}")
        time.sleep(LOOK_S)


def _is_fresh(row: ServerStatus, state: InstallState) -> bool:
    known = state.record_of(row.server.file)
    since_ns = 0 if known is None else int(known.at_s * 1e9)
    return row.last is not None and row.last.wall_ns >= since_ns
