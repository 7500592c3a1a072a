"""Find out why a server does not work in a client: start it as the client would, and name the first thing that fails.

  CLIENT [SERVER]            the servers in the configuration of your clients
  URL                        a server with a URL
  -- COMMAND [ARGUMENT ...]  a command

It changes no file. Exit code: 0 if every server works, 1 if one does not, 2 for wrong usage.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from difflib import get_close_matches
from typing import Any, Final

from captures.redact import server_name
from mcpproxy.cli.arguments import Parser, add_json
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.routes import client_named, find_all
from mcpproxy.clients.addresses import authority
from mcpproxy.clients.catalogue import CLIENTS
from mcpproxy.clients.client import Client
from mcpproxy.clients.listeners import Listener, listener_of, split_origin
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.servers import ClientInventory, Server
from mcpproxy.clients.state import State, state_folder
from mcpproxy.doctor import config_checks, orphans, process_attempt
from mcpproxy.doctor.examination import LONGEST_S, Result, examine, of_command, of_url
from mcpproxy.doctor.pages import text_page
from mcpproxy.doctor.verdict import Diagnosis
from mcpproxy.doctor.verdicts import VERDICTS
from mcpproxy.report.output import json_line, width_of_stdout
from mcpproxy.report.text import count_text, fit
from mcpproxy.report.wrapping import wrapped
from mcpproxy.sanitise import sanitise

AT_ONCE: Final = 4
"""Servers that are started at the same time."""
MOST_LISTED: Final = 6
"""How many names or files an error lists."""
_STEPS: Final = {"first_byte": "first byte", "initialize": "initialize", "tools_list": "tools/list"}
_INSTEAD: Final = "to examine a command, run mcpproxy doctor -- COMMAND"
_RECORDER: Final = (sys.executable, "-P", "-m", "mcpproxy")
Examination = Callable[[], Result]


def parser() -> argparse.ArgumentParser:
    """The arguments of `doctor`."""
    parser = Parser("doctor", __doc__)
    forms = ("[CLIENT [SERVER]]", "URL", "-- COMMAND [ARGUMENT ...]")
    parser.usage = "\n       ".join(f"{parser.prog} [OPTION ...] {form}" for form in forms)
    parser.add_argument("client", nargs="?", metavar="CLIENT", help="a client by name, or a URL (default: all clients)")
    parser.add_argument("server", nargs="?", metavar="SERVER", help="one server of the client")
    parser.add_argument("--explain", metavar="VERDICT", help="print what a verdict means and what to do, and exit")
    add_json(parser)
    return parser


def run(arguments: list[str]) -> int:
    """Examine the servers; 1 if one does not work."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    command = arguments[at + 1 :]
    options = parser().parse_args(arguments[:at])
    if options.explain is not None:
        return _explain(options.explain)
    if at < len(arguments) and (not command or options.client):
        return fail("doctor takes a command after `--`, and nothing before it; see mcpproxy doctor --help")
    try:
        machine = Machine.here()
        of_files, todo = _todo(options, command, machine)
    except (ValueError, OSError) as error:
        return fail(str(error))
    results = _examined(todo)
    if options.format == "json":
        sys.stdout.writelines(json_line(_file_as_json(client, diagnosis)) for client, diagnosis in of_files)
        sys.stdout.writelines(json_line(_as_json(result)) for result in results)
    else:
        sys.stdout.writelines(f"{line}\n" for line in _text(of_files, results))
    fails = any(diagnosis.verdict.fails for _, diagnosis in of_files) or any(result.fails for result in results)
    return int(Exit.FINDINGS if fails else Exit.FINE)


def _explain(verdict: str) -> int:
    for verdict_class in VERDICTS:
        if verdict_class.id == verdict:
            sys.stdout.write(text_page(verdict_class))
            return int(Exit.FINE)
    near = get_close_matches(verdict, [verdict_class.id for verdict_class in VERDICTS], 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return fail(f"there is no verdict {sanitise(verdict, 64)}{hint}; docs/doctor/README.md lists all of them")


def _todo(
    options: argparse.Namespace, command: Sequence[str], machine: Machine
) -> tuple[list[tuple[str, Diagnosis]], list[Examination]]:
    """What is wrong with files, and what is to be examined.

    Raises:
        ValueError: there is no such client or server; the text is for the user.
    """
    if command:
        name = server_name([os.fsencode(word) for word in command])
        variables = dict(machine.environment)
        return [], [lambda: of_command(name, command, variables, machine.directory, machine, _RECORDER, LONGEST_S)]
    if options.client and "://" in options.client:
        if not options.client.startswith(("http://", "https://")):
            raise ValueError("the URL must begin with http:// or https://")
        return [], [lambda: of_url(authority(options.client), options.client, {}, is_sse=False)]
    clients = [client_named(options.client)] if options.client else list(CLIENTS)
    inventories = find_all(clients, machine)
    if not inventories:
        raise ValueError(_no_file(clients, machine))
    every = [server for inventory in inventories for server in inventory.servers]
    listeners = State(state_folder()).listeners
    if options.server:
        return [], [
            _examination(server, machine, listeners, is_named=True) for server in _named(options, every, machine)
        ]
    of_files = list(_of_files(inventories, machine))
    servers = [server for server in every if not server.is_off]
    if not servers and not of_files:
        raise ValueError(_no_server(inventories, machine))
    return of_files, [_examination(server, machine, listeners) for server in servers]


def _named(options: argparse.Namespace, servers: list[Server], machine: Machine) -> list[Server]:
    """The servers of a name.

    Raises:
        ValueError: there is none that is switched on; the text is for the user.
    """
    named = [server for server in servers if server.name == options.server]
    on = [server for server in named if not server.is_off]
    if on:
        return on
    name = sanitise(options.server, 64)
    if named:
        files = _listed(machine.shown(server.file) for server in named)
        raise ValueError(f"{name} of {options.client} is switched off in {files}; switch it on there, and try again")
    known = list(dict.fromkeys(server.name for server in servers))
    if not known:
        raise ValueError(
            f"{options.client} has no server {name}, nor any other; to see why, run mcpproxy doctor {options.client}"
        )
    near = get_close_matches(options.server, known, 1)
    hint = f" (did you mean {sanitise(near[0], 64)}?)" if near else ""
    raise ValueError(f"{options.client} has no server {name}{hint}; it has {_listed(known)}")


def _no_file(clients: list[Client], machine: Machine) -> str:
    """What was looked for, if there is no file of any client."""
    if len(clients) > 1:
        return f"no client has a configuration file on this machine; docs/clients.md lists the files; {_INSTEAD}"
    (client,) = clients
    places = (place for config in client.files for place in config.places.get(machine.system, ()))
    paths = (path for place in places for path in machine.resolve(place, client.overrides))
    looked = _listed(machine.shown(path) for path in paths)
    return f"{client.title} has no configuration file on this machine; looked for {looked}; {_INSTEAD}"


def _no_server(inventories: list[ClientInventory], machine: Machine) -> str:
    """Where servers were looked for, if there is none to examine."""
    off = [server for inventory in inventories for server in inventory.servers]
    if off:
        places = _listed(f"{server.name} in {machine.shown(server.file)}" for server in off)
        return f"every server is switched off: {places}; switch one on, and try again"
    files = [path for inventory in inventories for path in inventory.files]
    titles = _listed(inventory.client.title for inventory in inventories)
    where = _listed(map(machine.shown, files)) if files else f"any file of {titles}"
    return f"no server is configured in {where}; add one there; {_INSTEAD}"


def _listed(names: Iterable[str]) -> str:
    """The first few of some names, each once."""
    each = [sanitise(name, 100) for name in dict.fromkeys(names)]
    more = f" and {len(each) - MOST_LISTED} more" if len(each) > MOST_LISTED else ""
    return f"{', '.join(each[:MOST_LISTED])}{more}"


def _of_files(inventories: list[ClientInventory], machine: Machine) -> Iterator[tuple[str, Diagnosis]]:
    for inventory in inventories:
        for _, diagnosis in config_checks.of_files(inventory, machine):
            yield inventory.client.id, diagnosis


def _examination(server: Server, machine: Machine, listeners: list[Listener], *, is_named: bool = False) -> Examination:
    listener = None if server.url is None else listener_of(server.url[1], listeners)
    own = None
    if listener is not None and server.url is not None:
        own = listener.upstream + split_origin(server.url[1])[1]
    return lambda: examine(server, machine, _RECORDER, own, is_named=is_named)


def _examined(todo: list[Examination]) -> list[Result]:
    """Examine several servers side by side; their results in order."""
    orphans.adopt()
    shows = sys.stderr is not None and sys.stderr.isatty() and len(todo) > 1
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                futures: list[Future[Result]] = [pool.submit(examination) for examination in todo]
                waiting = {*futures}
                while waiting:
                    _, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    if shows and waiting:
                        say(f"{len(todo) - len(waiting)} of {len(todo)} servers examined")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                process_attempt.end_all()
                raise
    finally:
        orphans.end_children()
    return [future.result() for future in futures]


def _as_json(result: Result) -> dict[str, Any]:
    return {
        "client": result.client,
        "server": result.name,
        "works": not result.fails if result.is_examined else None,
        "verdicts": [_diagnosis_as_json(diagnosis) for diagnosis in result.diagnoses],
        **{f"{name}_ms": round(value, 1) for name, value in result.timings_ms.items()},
        "tools": result.tools,
    }


def _file_as_json(client: str, diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "client": client,
        "server": None,
        "works": not diagnosis.verdict.fails,
        "verdicts": [_diagnosis_as_json(diagnosis)],
    }


def _diagnosis_as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "verdict": diagnosis.verdict.id,
        "fails": diagnosis.verdict.fails,
        "evidence": diagnosis.evidence,
        "advice": diagnosis.advice or None,
    }


def _text(of_files: list[tuple[str, Diagnosis]], results: list[Result]) -> Iterator[str]:
    width = min(width_of_stdout(), 100)
    for client, diagnosis in of_files:
        yield fit(f"{_sign(diagnosis)} {client}", width)
        yield from _details(diagnosis, width)
    for result in results:
        name = sanitise(result.name, 40)
        head = f"{result.client}  {name}" if result.client else name
        sign = "✗" if result.fails else "✓" if result.is_examined else "·"
        tools = "" if result.tools is None else f"  {count_text(result.tools, 'tool')}"
        yield fit(f"{sign} {head}{tools}", width)
        if result.timings_ms:
            yield from (f"    {line}" for line in wrapped(_times(result), width - 4))
        for diagnosis in result.diagnoses:
            yield from _details(diagnosis, width)
    bad = sum(result.fails for result in results)
    examined = sum(result.is_examined for result in results)
    yield ""
    if not results:
        yield "No server was found to examine; first fix the files above"
    if examined:
        yield f"{count_text(examined, 'server')} examined, {bad} not working"
    if examined < len(results):
        yield f"{count_text(len(results) - examined, 'server')} of the project not started; name one to start it"


def _sign(diagnosis: Diagnosis) -> str:
    return "✗" if diagnosis.verdict.fails else "·"


def _details(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    yield f"  {_sign(diagnosis)} {diagnosis.verdict.id}: {diagnosis.verdict.title()}"
    texts = [diagnosis.evidence, *([f"→ {diagnosis.advice}"] if diagnosis.advice else [])]
    if diagnosis.verdict.fails and not diagnosis.advice:
        texts.append(f"→ mcpproxy doctor --explain {diagnosis.verdict.id}")
    for text in texts:
        yield from (f"    {line}" for line in wrapped(sanitise(text, 1000), width - 4))


def _times(result: Result) -> str:
    """When each step was done. All times are from the start, so each says "after": as durations they would add up."""
    # A server without tools is not asked for their list; its time is then that of `initialize`.
    steps = {name: ms for name, ms in result.timings_ms.items() if name != "tools_list" or result.tools is not None}
    return ", ".join(f"{_STEPS[name]} after {_duration(ms)}" for name, ms in steps.items())


def _duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"
