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
from mcpproxy.cli.doctor_text import list_names, missing_dashes_error
from mcpproxy.cli.routes import find_inventories, find_used_inventories, named_client
from mcpproxy.clients.addresses import authority
from mcpproxy.clients.catalogue import CLIENTS, client_by_id
from mcpproxy.clients.client import Client
from mcpproxy.clients.effective import effective_servers
from mcpproxy.clients.hosted import HOSTED_CLIENTS
from mcpproxy.clients.listeners import Listener, NotRoutable, listener_of, server_url
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.recovery import recover_records
from mcpproxy.clients.servers import ClientInventory, Server
from mcpproxy.clients.state import read_state
from mcpproxy.doctor import config_checks, orphans, process_attempt
from mcpproxy.doctor.examination import (
    MAX_ATTEMPT_S,
    ExaminationResult,
    examine,
    examine_command,
    examine_url,
    lost_route_result,
    overridden_result,
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
MAX_PARALLEL_EXAMINATIONS: Final = 4
"""The maximum number of servers that are examined at the same time."""
_COMMAND_HINT: Final = "to examine a command, run mcpproxy doctor -- COMMAND"
_RECORDER_COMMAND: Final = (sys.executable, "-P", "-m", "mcpproxy")
_OPTIONS: Final = frozenset({"--json", "--explain", "--help", "-h"})


class DoctorTarget(NamedTuple):
    """One server to examine."""

    client: str | None
    name: str
    run: Callable[[], ExaminationResult]
    server: Server | None = None
    """Its entry in a configuration file, if it has one."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `doctor`."""
    parser = Parser("doctor", __doc__)
    usages = ("[CLIENT [SERVER]]", "URL", "-- COMMAND [ARGUMENT ...]")
    parser.usage = "\n       ".join(f"{parser.prog} [OPTION ...] {form}" for form in usages)
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
    dashes_index = arguments.index("--") if "--" in arguments else len(arguments)
    command = arguments[dashes_index + 1 :]
    if dashes_index == len(arguments) and (words := _bare_command(arguments)):
        return fail(missing_dashes_error(words))
    options = parser().parse_args(arguments[:dashes_index])
    if options.explain is not None:
        return _explain(options.explain)
    if options.hosted is not None and "://" not in (options.client or ""):
        return fail("--as takes the URL of a server: mcpproxy doctor URL --as HOST")
    if dashes_index < len(arguments) and (not command or options.client):
        return fail("doctor takes a command after `--`, and nothing before it; see mcpproxy doctor --help")
    try:
        machine = Machine.current()
        file_diagnoses, targets = _diagnoses_and_targets(options, command, machine)
    except (ValueError, OSError) as error:
        return fail(str(error))
    results = (
        _print_json(file_diagnoses, targets)
        if options.format == "json"
        else _print_text(file_diagnoses, targets, machine)
    )
    has_failures = any(diagnosis.verdict.fails for _, diagnosis in file_diagnoses) or any(
        result.fails for result in results
    )
    return int(Exit.FINDINGS if has_failures else Exit.FINE)


def _explain(verdict: str) -> int:
    for verdict_class in VERDICTS:
        if verdict_class.id == verdict:
            sys.stdout.write(doctor_text.verdict_page(verdict_class))
            return int(Exit.FINE)
    return fail(doctor_text.unknown_verdict_error(verdict))


def _bare_command(arguments: Sequence[str]) -> Sequence[str]:
    """Return the words of a command that was typed without `--`; empty if the arguments are not a command."""
    start = next((index for index, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
    words = arguments[start:]
    if {"--explain", "--as"} & {*arguments} or not words or "://" in words[0] or _resembles_client_id(words[0]):
        return ()
    is_command = len(words) > 2 or any(word.startswith("-") and word not in _OPTIONS for word in words)
    return words if is_command else ()


def _resembles_client_id(name: str) -> bool:
    return nearest(name, [client.id for client in CLIENTS]) is not None


def _named_client(options: argparse.Namespace, machine: Machine) -> Client:
    """Return the client that the user named.

    Raises:
        ValueError: there is no such client; the message is for the user.
    """
    client_name = options.client
    if client_by_id(client_name) is None:
        inventories = find_inventories(CLIENTS, machine)
        owners = [
            inventory.client.id
            for inventory in inventories
            if any(server.name == client_name for server in inventory.servers)
        ]
        if owners:
            command = f"mcpproxy doctor {owners[0]} {shlex.quote(client_name)}"
            raise ValueError(
                f"{sanitise(client_name, 64)} is a server of {' and '.join(owners)}; use {sanitise(command, 200)}"
            )
        if not _resembles_client_id(client_name) and shutil.which(client_name):
            raise ValueError(missing_dashes_error([client_name, *([options.server] if options.server else [])]))
    return named_client(client_name)


def _diagnoses_and_targets(
    options: argparse.Namespace, command: Sequence[str], machine: Machine
) -> tuple[list[tuple[str, Diagnosis]], list[DoctorTarget]]:
    """Return the problems of configuration files, each with its client, and the servers to examine.

    Raises:
        ValueError: there is no such client or server; the message is for the user.
    """
    if command:
        name = server_name([os.fsencode(word) for word in command])
        variables = dict(machine.environment)
        start = partial(
            examine_command, name, command, variables, machine.directory, machine, _RECORDER_COMMAND, MAX_ATTEMPT_S
        )
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
    clients = [_named_client(options, machine)] if options.client else list(CLIENTS)
    inventories = find_used_inventories(clients, machine)
    if not inventories:
        raise ValueError(_no_file_message(clients, machine))
    all_servers = [server for inventory in inventories for server in inventory.servers]
    state = read_state()
    lost_servers = recover_records(state, machine)
    routes = _EntryRoutes(state.listeners, lost_servers)
    if options.server:
        named_servers = _named_servers(options, all_servers, machine)
        # If the user's own configuration has a server of this name, the name refers to it, not to one in a repository.
        has_own = any(server.scope != "project" for server in named_servers)
        return [], [
            _target_for(server, machine, routes, is_named=not has_own or server.scope != "project")
            for server in named_servers
        ]
    file_diagnoses = list(_file_diagnoses(inventories, machine))
    servers = [server for server in all_servers if not server.is_disabled]
    if not servers and not file_diagnoses:
        raise ValueError(_no_server_message(inventories, machine))
    used_servers = _effective_servers(all_servers, machine)
    return file_diagnoses, [
        _target_for(server, machine, routes)
        if used_servers[id(server)] is server
        else DoctorTarget(
            server.client.id, server.name, partial(overridden_result, server, used_servers[id(server)], machine), server
        )
        for server in servers
    ]


def _effective_servers(servers: list[Server], machine: Machine) -> dict[int, Server]:
    """Map the `id()` of every server to the entry that its client uses; an untrusted entry overrides no other."""
    trusted_servers = [server for server in servers if not trust_in(server, machine).distrust_reason]
    return {id(server): server for server in servers} | effective_servers(trusted_servers, machine)


def _named_servers(options: argparse.Namespace, servers: list[Server], machine: Machine) -> list[Server]:
    """Return the enabled servers with the name that the user gave.

    Raises:
        ValueError: there is no such enabled server; the message is for the user.
    """
    named_servers = [server for server in servers if server.name == options.server]
    enabled_servers = [server for server in named_servers if not server.is_disabled]
    if enabled_servers:
        return enabled_servers
    name = sanitise(options.server, 64)
    if named_servers:
        files = list_names(machine.display_path(server.file) for server in named_servers)
        raise ValueError(f"{name} of {options.client} is switched off in {files}; switch it on there, and try again")
    server_names = list(dict.fromkeys(server.name for server in servers))
    if not server_names:
        raise ValueError(
            f"{options.client} has no server {name}, nor any other; to see why, run mcpproxy doctor {options.client}"
        )
    suggestion = hint(options.server, server_names)
    raise ValueError(f"{options.client} has no server {name}{suggestion}; it has {list_names(server_names)}")


def _no_file_message(clients: list[Client], machine: Machine) -> str:
    """Return the message that no client has a configuration file, with the paths that were searched."""
    if len(clients) > 1:
        return f"no client has a configuration file on this machine; docs/clients.md lists the files; {_COMMAND_HINT}"
    (client,) = clients
    places = (place for config in client.files for place in config.places.get(machine.system, ()))
    paths = (path for place in places for path in machine.paths_of(place, client.overrides))
    searched_files = list_names(machine.display_path(path) for path in paths)
    return f"{client.title} has no configuration file on this machine; looked for {searched_files}; {_COMMAND_HINT}"


def _no_server_message(inventories: list[ClientInventory], machine: Machine) -> str:
    """Return the message that there is no server to examine, with the files that were searched."""
    disabled_servers = [server for inventory in inventories for server in inventory.servers]
    if disabled_servers:
        places = list_names(f"{server.name} in {machine.display_path(server.file)}" for server in disabled_servers)
        return f"every server is switched off: {places}; switch one on, and try again"
    files = [path for inventory in inventories for path in inventory.files]
    titles = list_names(inventory.client.title for inventory in inventories)
    location = list_names(map(machine.display_path, files)) if files else f"any file of {titles}"
    return f"no server is configured in {location}; add one there; {_COMMAND_HINT}"


def _file_diagnoses(inventories: list[ClientInventory], machine: Machine) -> Iterator[tuple[str, Diagnosis]]:
    for inventory in inventories:
        for _, diagnosis in config_checks.check_files(inventory, machine):
            yield inventory.client.id, diagnosis


class _EntryRoutes(NamedTuple):
    """The routes of entries with a URL through mcpproxy."""

    listeners: list[Listener]
    lost_servers: list[Server]
    """Entries that seem to lead to a port of mcpproxy, but whose listener is not recorded."""


def _target_for(server: Server, machine: Machine, routes: _EntryRoutes, *, is_named: bool = False) -> DoctorTarget:
    if any((lost.file, lost.place) == (server.file, server.place) for lost in routes.lost_servers):
        return DoctorTarget(server.client.id, server.name, partial(lost_route_result, server, machine), server)
    listener = None if server.url_member is None else listener_of(server.url_member[1], routes.listeners)
    upstream_url = None
    if listener is not None and server.url_member is not None:
        with suppress(NotRoutable):  # the entry is then examined unchanged
            upstream_url = server_url(listener, server.url_member[1])
    start = partial(examine, server, machine, _RECORDER_COMMAND, upstream_url, is_named=is_named)
    return DoctorTarget(server.client.id, server.name, start, server)


def _examine_all(targets: list[DoctorTarget]) -> Generator[tuple[int, ExaminationResult]]:
    """Examine servers in parallel; yields each result as soon as it is complete, after its position in the list."""
    orphans.adopt_orphans()
    progress = Progress()
    try:
        with ThreadPoolExecutor(MAX_PARALLEL_EXAMINATIONS) as pool:
            try:
                futures: dict[Future[ExaminationResult], int] = {
                    pool.submit(target.run): index for index, target in enumerate(targets)
                }
                pending = {*futures}
                while pending:
                    if len(targets) > 1:
                        names = [targets[index].name for future, index in futures.items() if future in pending]
                        progress.show(doctor_text.progress_text(names, len(targets) - len(pending), len(targets)))
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    progress.clear()
                    for future in sorted(done, key=futures.__getitem__):
                        yield futures[future], future.result()
            except BaseException:
                progress.clear()
                pool.shutdown(wait=False, cancel_futures=True)
                process_attempt.terminate_all()
                raise
    finally:
        orphans.end_children()


def _print_text(
    file_diagnoses: list[tuple[str, Diagnosis]], targets: list[DoctorTarget], machine: Machine
) -> list[ExaminationResult]:
    """Print each result as soon as it is complete, so that Ctrl-C loses none; returns all results."""
    for client, diagnosis in file_diagnoses:
        _print(doctor_text.file_lines(client, diagnosis))
    names = Counter((target.client, target.name) for target in targets)
    results = []
    with closing(_examine_all(targets)) as indexed_results:
        for index, result in indexed_results:
            server = targets[index].server
            is_unique = server is None or names[targets[index].client, targets[index].name] == 1
            _print(
                doctor_text.result_lines(
                    result, "" if server is None or is_unique else _entry_location(server, machine)
                )
            )
            results.append(result)
    is_hosted = any(result.checklist is not None for result in results)
    _print((hosted_text if is_hosted else doctor_text).summary_lines(results))
    return results


def _entry_location(server: Server, machine: Machine) -> str:
    """Return a text that distinguishes this entry from others of the same name."""
    return f"{server.scope}, {machine.display_path(server.file)}{f' for {server.project}' if server.project else ''}"


def _print(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def _print_json(file_diagnoses: list[tuple[str, Diagnosis]], targets: list[DoctorTarget]) -> list[ExaminationResult]:
    """Print all results as JSON, in the order of the servers; returns them."""
    with closing(_examine_all(targets)) as indexed_results:
        results = dict(indexed_results)
    sys.stdout.writelines(json_line(_file_as_json(client, diagnosis)) for client, diagnosis in file_diagnoses)
    sys.stdout.writelines(json_line(_as_json(target, results[index])) for index, target in enumerate(targets))
    return list(results.values())


def _as_json(target: DoctorTarget, result: ExaminationResult) -> dict[str, Any]:
    server = target.server
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
