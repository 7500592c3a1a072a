"""Find out why a server does not work in a client: start it as the client would, and name the first thing that fails.

  CLIENT [SERVER]            the servers in the configuration of your clients
  URL                        an HTTP server
  -- COMMAND [ARGUMENT ...]  a command

It changes no file. Exit code: 0 if every server works, 1 if one does not, 2 for wrong usage.
"""

import argparse
import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from functools import partial
from typing import Any, Final, NamedTuple

from captures.redact import server_name
from mcpproxy.cli import doctor_text, hosted_text
from mcpproxy.cli.arguments import Parser, add_json
from mcpproxy.cli.diagnostics import Exit, Progress, fail
from mcpproxy.cli.doctor_text import after_dashes, listed
from mcpproxy.cli.routes import client_named, find_all, find_used
from mcpproxy.clients.addresses import authority
from mcpproxy.clients.catalogue import CLIENTS, by_id
from mcpproxy.clients.client import Client
from mcpproxy.clients.effective import effective
from mcpproxy.clients.hosted import HOSTED_CLIENTS
from mcpproxy.clients.listeners import Listener, NotRoutable, listener_of, own_url
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.recovery import recover
from mcpproxy.clients.servers import ClientInventory, Server
from mcpproxy.clients.state import read_state
from mcpproxy.doctor import config_checks, orphans, process_attempt
from mcpproxy.doctor.examination import (
    MAX_ATTEMPT_S,
    Result,
    examine,
    examine_command,
    examine_url,
    lost_route,
    overridden,
)
from mcpproxy.doctor.hosted_examination import examine_hosted
from mcpproxy.doctor.trust import trust_in
from mcpproxy.doctor.verdict import Diagnosis
from mcpproxy.doctor.verdicts import VERDICTS
from mcpproxy.report.output import json_line
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.nearest import hint, nearest

ALL_HOSTED: Final = "all"
"""Stands for every hosted client."""
AT_ONCE: Final = 4
"""How many servers are started at the same time."""
_INSTEAD: Final = "to examine a command, run mcpproxy doctor -- COMMAND"
_RECORDER: Final = (sys.executable, "-P", "-m", "mcpproxy")
_OPTIONS: Final = frozenset({"--json", "--explain", "--help", "-h"})


class DoctorTarget(NamedTuple):
    """One server to examine."""

    client: str | None
    name: str
    run: Callable[[], Result]
    server: Server | None = None
    """Its entry, if it has one."""


def parser() -> argparse.ArgumentParser:
    """The arguments of `doctor`."""
    parser = Parser("doctor", __doc__)
    forms = ("[CLIENT [SERVER]]", "URL", "-- COMMAND [ARGUMENT ...]")
    parser.usage = "\n       ".join(f"{parser.prog} [OPTION ...] {form}" for form in forms)
    parser.add_argument("client", nargs="?", metavar="CLIENT", help="a client by name, or a URL (default: all clients)")
    parser.add_argument("server", nargs="?", metavar="SERVER", help="one server of the client")
    parser.add_argument(
        "--as",
        dest="hosted",
        choices=(*(client.id for client in HOSTED_CLIENTS), ALL_HOSTED),
        metavar="HOST",
        help=f"check a URL for a hosted client: {', '.join(client.id for client in HOSTED_CLIENTS)} or {ALL_HOSTED}",
    )
    parser.add_argument("--explain", metavar="VERDICT", help="print what a verdict means and what to do, and exit")
    add_json(parser)
    return parser


def run(arguments: list[str]) -> int:
    """Examine the servers; returns 1 if one does not work."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    command = arguments[at + 1 :]
    if at == len(arguments) and (words := _bare_command(arguments)):
        return fail(after_dashes(words))
    options = parser().parse_args(arguments[:at])
    if options.explain is not None:
        return _explain(options.explain)
    if options.hosted is not None and "://" not in (options.client or ""):
        return fail("--as takes the URL of a server: mcpproxy doctor URL --as HOST")
    if at < len(arguments) and (not command or options.client):
        return fail("doctor takes a command after `--`, and nothing before it; see mcpproxy doctor --help")
    try:
        machine = Machine.here()
        of_files, todo = _todo(options, command, machine)
    except (ValueError, OSError) as error:
        return fail(str(error))
    results = _print_json(of_files, todo) if options.format == "json" else _print_text(of_files, todo, machine)
    fails = any(diagnosis.verdict.fails for _, diagnosis in of_files) or any(result.fails for result in results)
    return int(Exit.FINDINGS if fails else Exit.FINE)


def _explain(verdict: str) -> int:
    for verdict_class in VERDICTS:
        if verdict_class.id == verdict:
            sys.stdout.write(doctor_text.page(verdict_class))
            return int(Exit.FINE)
    return fail(doctor_text.no_verdict(verdict))


def _bare_command(arguments: Sequence[str]) -> Sequence[str]:
    """A command with arguments that was given without `--`; empty if the arguments are something else."""
    at = next((at for at, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
    words = arguments[at:]
    if {"--explain", "--as"} & {*arguments} or not words or "://" in words[0] or _is_like_a_client(words[0]):
        return ()
    is_unfit = len(words) > 2 or any(word.startswith("-") and word not in _OPTIONS for word in words)
    return words if is_unfit else ()


def _is_like_a_client(name: str) -> bool:
    return nearest(name, [client.id for client in CLIENTS]) is not None


def _client(options: argparse.Namespace, machine: Machine) -> Client:
    """The client that was named.

    Raises:
        ValueError: there is no such client; the text is for the user.
    """
    name = options.client
    if by_id(name) is None:
        inventories = find_all(CLIENTS, machine)
        owners = [one.client.id for one in inventories if any(server.name == name for server in one.servers)]
        if owners:
            command = f"mcpproxy doctor {owners[0]} {shlex.quote(name)}"
            raise ValueError(
                f"{sanitise(name, 64)} is a server of {' and '.join(owners)}; use {sanitise(command, 200)}"
            )
        if not _is_like_a_client(name) and shutil.which(name):
            raise ValueError(after_dashes([name, *([options.server] if options.server else [])]))
    return client_named(name)


def _todo(
    options: argparse.Namespace, command: Sequence[str], machine: Machine
) -> tuple[list[tuple[str, Diagnosis]], list[DoctorTarget]]:
    """The problems of files, and the servers to examine.

    Raises:
        ValueError: there is no such client or server; the text is for the user.
    """
    if command:
        name = server_name([os.fsencode(word) for word in command])
        variables = dict(machine.environment)
        start = partial(examine_command, name, command, variables, machine.directory, machine, _RECORDER, MAX_ATTEMPT_S)
        return [], [DoctorTarget(None, name, start)]
    if options.client and "://" in options.client:
        if not options.client.startswith(("http://", "https://")):
            raise ValueError("the URL must begin with http:// or https://")
        name = authority(options.client)
        if options.hosted is not None:
            hosted_clients = [each for each in HOSTED_CLIENTS if options.hosted in (each.id, ALL_HOSTED)]
            return [], [
                DoctorTarget(each.id, name, partial(examine_hosted, name, options.client, each))
                for each in hosted_clients
            ]
        return [], [DoctorTarget(None, name, partial(examine_url, name, options.client, {}, is_sse=False))]
    clients = [_client(options, machine)] if options.client else list(CLIENTS)
    inventories = find_used(clients, machine)
    if not inventories:
        raise ValueError(_no_file(clients, machine))
    every = [server for inventory in inventories for server in inventory.servers]
    state = read_state()
    lost = recover(state, machine)
    routes = _Routes(state.listeners, lost)
    if options.server:
        named = _named(options, every, machine)
        # If the user has a server of this name, the name means that one, not one in a repository.
        has_own = any(server.scope != "project" for server in named)
        return [], [
            _examination(server, machine, routes, is_named=not has_own or server.scope != "project") for server in named
        ]
    of_files = list(_of_files(inventories, machine))
    servers = [server for server in every if not server.is_disabled]
    if not servers and not of_files:
        raise ValueError(_no_server(inventories, machine))
    used = _used(every, machine)
    return of_files, [
        _examination(server, machine, routes)
        if used[id(server)] is server
        else DoctorTarget(server.client.id, server.name, partial(overridden, server, used[id(server)], machine), server)
        for server in servers
    ]


def _used(servers: list[Server], machine: Machine) -> dict[int, Server]:
    """For every server, by its `id()`, the entry that its client uses; an untrusted entry overrides no other."""
    trusted = [server for server in servers if not trust_in(server, machine).distrust]
    return {id(server): server for server in servers} | effective(trusted, machine)


def _named(options: argparse.Namespace, servers: list[Server], machine: Machine) -> list[Server]:
    """The servers of a name.

    Raises:
        ValueError: there is none that is enabled; the text is for the user.
    """
    named = [server for server in servers if server.name == options.server]
    on = [server for server in named if not server.is_disabled]
    if on:
        return on
    name = sanitise(options.server, 64)
    if named:
        files = listed(machine.shown(server.file) for server in named)
        raise ValueError(f"{name} of {options.client} is switched off in {files}; switch it on there, and try again")
    known = list(dict.fromkeys(server.name for server in servers))
    if not known:
        raise ValueError(
            f"{options.client} has no server {name}, nor any other; to see why, run mcpproxy doctor {options.client}"
        )
    near = hint(options.server, known)
    raise ValueError(f"{options.client} has no server {name}{near}; it has {listed(known)}")


def _no_file(clients: list[Client], machine: Machine) -> str:
    """The message if there is no file of any client: which files were searched for."""
    if len(clients) > 1:
        return f"no client has a configuration file on this machine; docs/clients.md lists the files; {_INSTEAD}"
    (client,) = clients
    places = (place for config in client.files for place in config.places.get(machine.system, ()))
    paths = (path for place in places for path in machine.resolve(place, client.overrides))
    looked = listed(machine.shown(path) for path in paths)
    return f"{client.title} has no configuration file on this machine; looked for {looked}; {_INSTEAD}"


def _no_server(inventories: list[ClientInventory], machine: Machine) -> str:
    """The message if there is no server to examine: where servers were searched for."""
    off = [server for inventory in inventories for server in inventory.servers]
    if off:
        places = listed(f"{server.name} in {machine.shown(server.file)}" for server in off)
        return f"every server is switched off: {places}; switch one on, and try again"
    files = [path for inventory in inventories for path in inventory.files]
    titles = listed(inventory.client.title for inventory in inventories)
    where = listed(map(machine.shown, files)) if files else f"any file of {titles}"
    return f"no server is configured in {where}; add one there; {_INSTEAD}"


def _of_files(inventories: list[ClientInventory], machine: Machine) -> Iterator[tuple[str, Diagnosis]]:
    for inventory in inventories:
        for _, diagnosis in config_checks.check_files(inventory, machine):
            yield inventory.client.id, diagnosis


class _Routes(NamedTuple):
    """Where entries with a URL lead."""

    listeners: list[Listener]
    lost: list[Server]
    """Entries that may lead to one of mcpproxy's ports, of which there is no record."""


def _examination(server: Server, machine: Machine, routes: _Routes, *, is_named: bool = False) -> DoctorTarget:
    if any((lost.file, lost.place) == (server.file, server.place) for lost in routes.lost):
        return DoctorTarget(server.client.id, server.name, partial(lost_route, server, machine), server)
    listener = None if server.url is None else listener_of(server.url[1], routes.listeners)
    own = None
    if listener is not None and server.url is not None:
        with suppress(NotRoutable):  # then the entry is examined as it is
            own = own_url(listener, server.url[1])
    start = partial(examine, server, machine, _RECORDER, own, is_named=is_named)
    return DoctorTarget(server.client.id, server.name, start, server)


def _examined(todo: list[DoctorTarget]) -> Generator[tuple[int, Result]]:
    """Examine servers in parallel; yields each result, with its position in the list, as soon as it is complete."""
    orphans.adopt()
    progress = Progress()
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                futures: dict[Future[Result], int] = {pool.submit(one.run): at for at, one in enumerate(todo)}
                waiting = {*futures}
                while waiting:
                    if len(todo) > 1:
                        names = [todo[at].name for future, at in futures.items() if future in waiting]
                        progress.show(doctor_text.awaited(names, len(todo) - len(waiting), len(todo)))
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    progress.clear()
                    for future in sorted(done, key=futures.__getitem__):
                        yield futures[future], future.result()
            except BaseException:
                progress.clear()
                pool.shutdown(wait=False, cancel_futures=True)
                process_attempt.end_all()
                raise
    finally:
        orphans.end_children()


def _print_text(of_files: list[tuple[str, Diagnosis]], todo: list[DoctorTarget], machine: Machine) -> list[Result]:
    """Print each result as soon as it is complete, so that Ctrl-C loses none; returns all."""
    for client, diagnosis in of_files:
        _print(doctor_text.file_lines(client, diagnosis))
    names = Counter((one.client, one.name) for one in todo)
    results = []
    with closing(_examined(todo)) as examined:
        for at, result in examined:
            server = todo[at].server
            is_alone = server is None or names[todo[at].client, todo[at].name] == 1
            _print(doctor_text.result_lines(result, "" if server is None or is_alone else _place(server, machine)))
            results.append(result)
    is_hosted = any(result.checklist is not None for result in results)
    _print((hosted_text if is_hosted else doctor_text).summary_lines(results))
    return results


def _place(server: Server, machine: Machine) -> str:
    """The text that distinguishes this entry from others of the same name."""
    return f"{server.scope}, {machine.shown(server.file)}{f' for {server.project}' if server.project else ''}"


def _print(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def _print_json(of_files: list[tuple[str, Diagnosis]], todo: list[DoctorTarget]) -> list[Result]:
    """Print all results in their order; returns them."""
    with closing(_examined(todo)) as examined:
        results = dict(examined)
    sys.stdout.writelines(json_line(_file_as_json(client, diagnosis)) for client, diagnosis in of_files)
    sys.stdout.writelines(json_line(_as_json(one, results[at])) for at, one in enumerate(todo))
    return list(results.values())


def _as_json(examination: DoctorTarget, result: Result) -> dict[str, Any]:
    server = examination.server
    return {
        "client": result.client,
        "server": result.name,
        "scope": None if server is None else server.scope,
        "file": None if server is None else str(server.file),
        "works": not result.fails if result.is_examined else None,
        "verdicts": [_diagnosis_as_json(diagnosis) for diagnosis in result.diagnoses],
        **{f"{name}_ms": round(value, 1) for name, value in result.timings_ms.items()},
        "tools": result.tools,
        **({} if result.checklist is None else {"checklist": result.checklist.as_json()}),
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
