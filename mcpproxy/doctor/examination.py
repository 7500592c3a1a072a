"""Examines one server: checks its entry, tries to use the server, and reports faults and remarks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from mcpproxy.clients.machine import Machine
from mcpproxy.clients.servers import Server
from mcpproxy.clients.state import state_folder
from mcpproxy.clients.unrecorded import note_text, unrecorded
from mcpproxy.clients.up_lock import running_up
from mcpproxy.doctor import config_checks, destination, entry_text, http_attempt, process_attempt, programs
from mcpproxy.doctor.process_attempt import Attempt
from mcpproxy.doctor.trust import Trust, trust_in
from mcpproxy.doctor.variables import expanded, values_of
from mcpproxy.doctor.verdict import Diagnosis
from mcpproxy.doctor.verdicts import (
    CannotRecord,
    Exits,
    LogOnStdout,
    NeedsConsent,
    NoAnswer,
    NoCommand,
    NotFound,
    NotTrusted,
    Overridden,
    PortClosed,
    Refused,
    RunsUnrecorded,
    Slow,
    TooSlow,
)
from mcpproxy.wording.units import duration, nanoseconds

MAX_ATTEMPT_S: Final = 60.0
"""The maximum duration of an attempt, regardless of the client's time-out."""
PATIENCE_S: Final = 10.0
"""The minimum time-out of an attempt, to distinguish a server that answers late from one that never answers."""
HTTP_S: Final = 20.0


class Result(NamedTuple):
    """The result of examining one server."""

    name: str
    client: str | None
    """The id of its client; None if the user named a command or a URL."""
    diagnoses: tuple[Diagnosis, ...]
    """The fault, if there is one, and the remarks."""
    timings_ms: Mapping[str, float]
    """The times of `first_byte`, `initialize` and `tools_list` after the start, as far as the server got."""
    tools: int | None = None

    @property
    def fails(self) -> bool:
        """Whether the client cannot use the server."""
        return any(diagnosis.verdict.fails for diagnosis in self.diagnoses)

    @property
    def is_examined(self) -> bool:
        """Whether the server itself was examined; if it needs consent, for example, only its entry was read."""
        return self.fails or not any(diagnosis.verdict.leaves_unexamined for diagnosis in self.diagnoses)


def examine(
    server: Server, machine: Machine, recorder: Sequence[str], url: str | None = None, *, is_named: bool = False
) -> Result:
    """Examine a server as its client would start it.

    Args:
        server: the entry.
        machine: the machine on which the client runs.
        recorder: the command of mcpproxy.
        url: the server's own URL, if it is routed to one of mcpproxy's listeners; by default, the URL of the entry.
        is_named: whether the user has named this server, and thereby agreed to start it.
    """
    trust = trust_in(server, machine)
    if trust.is_approved:
        return _examine(server, machine, recorder, url)
    if not is_named:
        entry = config_checks.check_entry(server, machine)
        return Result(server.name, server.client.id, (_untrusted(server, machine, trust), *entry), {})
    result = _examine(server, machine, recorder, url)
    if not trust.distrust:
        return result
    title = server.client.title
    if result.fails or not result.is_examined:
        distrust = Diagnosis(NotTrusted, trust.distrust, f"mend the server, then approve it in {title}")
        return result._replace(diagnoses=(*result.diagnoses, distrust))
    advice = f"the server works, but {title} does not start it until you approve it there"
    return result._replace(diagnoses=(Diagnosis(NotTrusted, trust.distrust, advice), *result.diagnoses))


def overridden(server: Server, used_entry: Server, machine: Machine) -> Result:
    """Return the result for an entry that is not examined because its client uses another entry of the same name."""
    state = ", which is switched off" if used_entry.is_disabled else ""
    evidence = (
        f"{server.client.title} uses the {used_entry.scope} entry in {machine.shown(used_entry.file)} instead{state}"
    )
    advice = f"to start it all the same, run {_naming(server)}"
    return Result(server.name, server.client.id, (Diagnosis(Overridden, evidence, advice),), {})


def lost_route(server: Server, machine: Machine) -> Result:
    """Return the result for an entry that seems to lead to a port of mcpproxy, but whose listener is not recorded."""
    port = urlsplit(server.url[1]).port if server.url is not None else None
    evidence = f"127.0.0.1:{port} may be a port of mcpproxy, but no record of `install` says of which server"
    advice = f"write the server's own URL into {machine.shown(server.file)}"
    return Result(server.name, server.client.id, (Diagnosis(PortClosed, evidence, advice),), {})


def _examine(server: Server, machine: Machine, recorder: Sequence[str], url: str | None) -> Result:
    """Examine a server that may be started."""
    diagnoses = list(config_checks.check_entry(server, machine))
    if any(diagnosis.verdict.fails or diagnosis.verdict.leaves_unexamined for diagnosis in diagnoses):
        return Result(server.name, server.client.id, tuple(diagnoses), {})
    route_fault = _cut_route(server, is_listener=url is not None)
    if route_fault is not None:
        return Result(server.name, server.client.id, (route_fault, *diagnoses), {})
    variables, values = dict(machine.environment), values_of(machine)
    if server.kind == "http" and server.url is not None:
        address = expanded(url or server.url[1], server.client, values)
        remarks = [*diagnoses, *config_checks.check_proxy(server.client, server.url[1], variables)]
        return examine_url(
            server.name,
            address,
            _headers(server, values),
            is_sse=_is_sse(server),
            client=server.client.id,
            remarks=remarks,
        )
    words = server.routed.inner if server.routed is not None else server.words
    if not words:
        reason = server.no_command_reason if server.routed is None else "nothing follows the words of mcpproxy"
        return Result(server.name, server.client.id, (Diagnosis(NoCommand, reason), *diagnoses), {})
    server_variables = server.client.environment.given(variables) | config_checks.entry_environment(server, values)
    diagnoses += config_checks.check_environment(server, variables, server_variables)
    expanded_words = [expanded(word, server.client, values) for word in words]
    folder = _folder(server, machine)
    obstacle = _unrecorded(server, expanded_words, server_variables, values, folder)
    if obstacle is not None and obstacle.verdict.fails:
        return Result(server.name, server.client.id, (obstacle, *diagnoses), {})
    diagnoses += [obstacle] if obstacle is not None else []
    return examine_command(
        server.name,
        expanded_words,
        server_variables,
        folder,
        machine,
        recorder,
        server.client.start_s,
        server.client.id,
        diagnoses,
        # The advice quotes the entry's words unexpanded, because the values of variables may be secrets.
        split_hint=entry_text.split_entry_text(server, programs.split(words[0])),
    )


def _naming(server: Server) -> str:
    """Return the command that examines a server by its name."""
    return f"mcpproxy doctor {server.client.id} {shlex.quote(server.name)}"


def _untrusted(server: Server, machine: Machine, trust: Trust) -> Diagnosis:
    """Return the diagnosis of a server that the user has not approved."""
    command = _naming(server)
    if trust.distrust:
        return Diagnosis(
            NotTrusted, trust.distrust, f"approve it in {server.client.title}, or start it anyway: {command}"
        )
    evidence = f"{machine.shown(server.file)} belongs to the project; nothing says that {server.client.title} trusts it"
    return Diagnosis(NeedsConsent, evidence, f"if you trust it, run {command}")


def _cut_route(server: Server, *, is_listener: bool) -> Diagnosis | None:
    """Return the fault that keeps the client from reaching a routed server through mcpproxy, or None."""
    if server.routed is not None and not server.routed.is_there:
        return Diagnosis(NotFound, f"{server.routed.program}, which routes it, is missing", "run `mcpproxy install`")
    if is_listener and server.url is not None:
        port = urlsplit(server.url[1]).port
        up = running_up(state_folder())
        if up is None:
            return Diagnosis(PortClosed, f"nothing of mcpproxy listens on 127.0.0.1:{port}", "start `mcpproxy up`")
        if port not in up.ports:
            evidence = f"`mcpproxy up` is running, but does not listen on 127.0.0.1:{port}"
            return Diagnosis(PortClosed, evidence, "its messages say why: another program may have the port")
    return None


def _unrecorded(
    server: Server, command: Sequence[str], variables: Mapping[str, str], values: Mapping[str, str], folder: Path
) -> Diagnosis | None:
    """Return the fault that keeps the recorder of a routed server from creating its capture, or None."""
    if server.routed is None:
        return None
    unrecorded_note = next((note for note in unrecorded() if note.name == server.routed.name), None)
    capture = expanded(server.routed.capture, server.client, values)
    obstacle = destination.obstacle(capture, server.routed.name, command, variables, folder)
    if obstacle is None and unrecorded_note is not None:
        return Diagnosis(
            RunsUnrecorded, note_text(unrecorded_note), f"restart it in {server.client.title}: it can be recorded now"
        )
    if obstacle is None:
        return None
    if server.routed.passes:
        note_suffix = "" if unrecorded_note is None else f"; {note_text(unrecorded_note)}"
        advice = f"make {obstacle.place} a directory that only you can write to, with free space on its disk"
        return Diagnosis(RunsUnrecorded, obstacle.reason + note_suffix, advice)
    arguments = f"{server.client.id} --server {shlex.quote(server.name)}"
    commands = f"`mcpproxy uninstall {arguments}`, then `mcpproxy install {arguments} --capture DIR`"
    advice = f"make {obstacle.place} a directory that only you can write to, or record elsewhere: {commands}"
    return Diagnosis(CannotRecord, obstacle.reason, advice)


def examine_command(
    name: str,
    words: Sequence[str],
    variables: dict[str, str],
    folder: Path,
    machine: Machine,
    recorder: Sequence[str],
    start_s: float,
    client: str | None = None,
    remarks: Sequence[Diagnosis] = (),
    *,
    split_hint: str | None = None,
) -> Result:
    """Examine a server that has a command.

    Args:
        name: the name of the server.
        words: the command.
        variables: the environment of the server.
        folder: the directory in which the server starts.
        machine: the machine on which the server runs.
        recorder: the command of mcpproxy.
        start_s: how long the client waits for the server to start, in seconds.
        client: the id of the client.
        remarks: the diagnoses so far.
        split_hint: the advice if the first word turns out to contain the arguments as well; by default, the command
            with separate words.
    """
    unpassable = next(
        (text for text in (*words, str(folder), *variables, *variables.values()) if not programs.is_passable(text)),
        None,
    )
    if unpassable is None:
        unpassable = next((variable for variable in variables if "=" in variable), None)
    if unpassable is not None:
        evidence = f"{unpassable[:200]!r} cannot be an argument, a variable or the folder of a process"
        return Result(name, client, (Diagnosis(Exits, evidence), *remarks), {})
    fault = programs.diagnose(words[0], variables, folder, machine.home)
    if fault is not None:
        split_diagnosis = (
            programs.unsplit_command(words[0], variables, folder, machine.home) if fault.verdict is NotFound else None
        )
        if split_diagnosis is not None:
            if split_hint is None:
                split_hint = f"run mcpproxy doctor -- {shlex.join([*programs.split(words[0]), *words[1:]])}"
            fault = split_diagnosis._replace(advice=split_diagnosis.advice + split_hint)
        return Result(name, client, (fault, *remarks), {})
    limit_s = min(max(2 * start_s, PATIENCE_S), MAX_ATTEMPT_S)
    outcome = process_attempt.attempt(recorder, words, variables, folder, limit_s)
    failure = _failure(outcome, limit_s)
    slow_remark = slowness(outcome.list_s, start_s)
    times = {"first_byte": outcome.first_byte_s, "initialize": outcome.initialize_s, "tools_list": outcome.list_s}
    timings = {key: value * 1000 for key, value in times.items() if value is not None}
    all_remarks = list(remarks)
    if outcome.noise:
        all_remarks.insert(0, Diagnosis(LogOnStdout, f"{outcome.noise[0][:200]!r}"))
    if failure is None and slow_remark is not None:
        all_remarks.insert(0, slow_remark)
    return Result(name, client, (*([failure] if failure else []), *all_remarks), timings, outcome.tools)


def slowness(duration_s: float | None, limit_s: float) -> Diagnosis | None:
    """Return the diagnosis of a server that was slow to answer, or None if it was quick."""
    if duration_s is None or duration_s <= limit_s / 2:
        return None
    evidence = f"it took {_text(duration_s)}, while the client allows {_text(limit_s)}"
    return Diagnosis(TooSlow if duration_s > limit_s else Slow, evidence)


def _text(seconds: float) -> str:
    return duration(nanoseconds(seconds * 1000))


def examine_url(
    name: str,
    url: str,
    headers: Mapping[str, str],
    *,
    is_sse: bool,
    client: str | None = None,
    remarks: Sequence[Diagnosis] = (),
) -> Result:
    """Examine a server that has a URL; the arguments are those of `examine_command` and `http_attempt.attempt`."""
    outcome = http_attempt.attempt(url, headers, is_sse=is_sse, limit_s=HTTP_S)
    timings = {} if outcome.initialize_s is None else {"initialize": outcome.initialize_s * 1000}
    diagnoses = (*([outcome.diagnosis] if outcome.diagnosis else []), *outcome.remarks, *remarks)
    return Result(name, client, diagnoses, timings, outcome.tools)


def _failure(outcome: Attempt, limit_s: float) -> Diagnosis | None:
    stderr_text = "; ".join(outcome.stderr)
    if outcome.launch_error:
        return Diagnosis(Exits, f"the recorder could not be started: {outcome.launch_error}")
    if outcome.cannot_record:
        advice = "set TMPDIR to a directory that only you can write to, on a disk with free space, and try again"
        return Diagnosis(CannotRecord, outcome.cannot_record, advice)
    if outcome.error:
        return Diagnosis(Refused, outcome.error)
    if outcome.result is not None:
        return None
    if outcome.status is not None:
        ending = f"killed by signal {-outcome.status}" if outcome.status < 0 else f"exit status {outcome.status}"
        return Diagnosis(Exits, f"{ending}: {stderr_text}" if stderr_text else f"{ending}, with nothing on stderr")
    reason = (
        "it is still running, but has closed its stdout" if outcome.is_closed else f"no answer within {limit_s:.0f} s"
    )
    return Diagnosis(NoAnswer, f"{reason}{f'; stderr: {stderr_text}' if stderr_text else ''}")


def _folder(server: Server, machine: Machine) -> Path:
    start = server.file.parent if server.client.starts_in_file_folder else machine.directory
    working_directory = server.entry.get("cwd") or server.entry.get("working_directory")
    if isinstance(working_directory, str) and working_directory:
        return start / os.path.expanduser(expanded(working_directory, server.client, values_of(machine)))
    return start


def _headers(server: Server, values: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the entry, which the client sends with every request."""
    client, entry = server.client, server.entry
    headers = {
        str(name): expanded(str(value), client, values)
        for member in ("headers", "http_headers")
        for name, value in _map(entry.get(member)).items()
    }
    headers |= {str(name): values.get(str(value), "") for name, value in _map(entry.get("env_http_headers")).items()}
    token = values.get(str(entry.get("bearer_token_env_var", "")))
    return headers | ({"Authorization": f"Bearer {token}"} if token else {})


def _map(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _is_sse(server: Server) -> bool:
    kind = server.entry.get("type", server.entry.get("transport"))
    if isinstance(kind, str):
        return kind == "sse"
    return server.url is not None and server.url[0] == ("url",) and ("httpUrl",) in server.client.urls
