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
from mcpproxy.clients.unrecorded import note_text, unrecorded_servers
from mcpproxy.clients.up_lock import running_up
from mcpproxy.doctor import config_checks, destination, entry_text, http_attempt, process_attempt, programs
from mcpproxy.doctor.hosted_checklist import Checklist
from mcpproxy.doctor.process_attempt import ProcessAttempt
from mcpproxy.doctor.trust import ServerTrust, trust_in
from mcpproxy.doctor.variables import expand_text, variable_values
from mcpproxy.doctor.verdict import Diagnosis
from mcpproxy.doctor.verdicts import (
    ClosedPort,
    EarlyExit,
    FailedRecording,
    LogOnStdout,
    MissingAnswer,
    MissingCommand,
    MissingConsent,
    MissingProgram,
    OverriddenEntry,
    RefusedRequest,
    SlowStart,
    StartTimeout,
    UnrecordedServer,
    UntrustedServer,
)
from mcpproxy.wording.units import duration, nanoseconds

MAX_ATTEMPT_S: Final = 60.0
"""The maximum duration of an attempt, regardless of the client's time-out."""
MIN_ATTEMPT_S: Final = 10.0
"""The minimum time-out of an attempt, to distinguish a server that answers late from one that never answers."""
HTTP_TIMEOUT_S: Final = 20.0


class ExaminationResult(NamedTuple):
    """The result of examining one server."""

    name: str
    client: str | None
    """The id of its client; None if the user named a command or a URL."""
    diagnoses: tuple[Diagnosis, ...]
    """The fault, if there is one, and the remarks."""
    timings_ms: Mapping[str, float]
    """The times of `first_byte`, `initialize` and `tools_list` after the start, as far as the server got."""
    tools: int | None = None
    checklist: Checklist | None = None
    """What was checked for a hosted client; None if the server was examined for no hosted client."""

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
) -> ExaminationResult:
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
        return ExaminationResult(
            server.name, server.client.id, (_distrust_diagnosis(server, machine, trust), *entry), {}
        )
    result = _examine(server, machine, recorder, url)
    if not trust.distrust_reason:
        return result
    title = server.client.title
    if result.fails or not result.is_examined:
        distrust = Diagnosis(UntrustedServer, trust.distrust_reason, f"fix the server, then approve it in {title}")
        return result._replace(diagnoses=(*result.diagnoses, distrust))
    advice = f"the server works, but {title} does not start it until you approve it there"
    return result._replace(diagnoses=(Diagnosis(UntrustedServer, trust.distrust_reason, advice), *result.diagnoses))


def overridden_result(server: Server, used_entry: Server, machine: Machine) -> ExaminationResult:
    """Return the result for an entry that is not examined because its client uses another entry of the same name."""
    state = ", which is switched off" if used_entry.is_disabled else ""
    evidence = (
        f"{server.client.title} uses the {used_entry.scope} entry in "
        f"{machine.display_path(used_entry.file)} instead{state}"
    )
    advice = f"to start it anyway, run {_doctor_command(server)}"
    return ExaminationResult(server.name, server.client.id, (Diagnosis(OverriddenEntry, evidence, advice),), {})


def lost_route_result(server: Server, machine: Machine) -> ExaminationResult:
    """Return the result for an entry that seems to lead to a port of mcpproxy, but whose listener is not recorded."""
    port = urlsplit(server.url_member[1]).port if server.url_member is not None else None
    evidence = (
        f"127.0.0.1:{port} may be one of mcpproxy's ports, but no record of `install` says which server it belongs to"
    )
    advice = f"write the server's own URL into {machine.display_path(server.file)}"
    return ExaminationResult(server.name, server.client.id, (Diagnosis(ClosedPort, evidence, advice),), {})


def _examine(server: Server, machine: Machine, recorder: Sequence[str], url: str | None) -> ExaminationResult:
    """Examine a server that may be started."""
    diagnoses = list(config_checks.check_entry(server, machine))
    if any(diagnosis.verdict.fails or diagnosis.verdict.leaves_unexamined for diagnosis in diagnoses):
        return ExaminationResult(server.name, server.client.id, tuple(diagnoses), {})
    route_fault = _route_diagnosis(server, is_listener=url is not None)
    if route_fault is not None:
        return ExaminationResult(server.name, server.client.id, (route_fault, *diagnoses), {})
    variables, values = dict(machine.environment), variable_values(machine)
    if server.kind == "http" and server.url_member is not None:
        address = expand_text(url or server.url_member[1], server.client, values)
        remarks = [*diagnoses, *config_checks.check_proxy(server.client, server.url_member[1], variables)]
        return examine_url(
            server.name,
            address,
            _headers(server, values),
            is_sse=_is_sse(server),
            client=server.client.id,
            remarks=remarks,
        )
    words = server.wrapped_command.server_command if server.wrapped_command is not None else server.words
    if not words:
        reason = server.no_command_reason if server.wrapped_command is None else "nothing follows the words of mcpproxy"
        return ExaminationResult(server.name, server.client.id, (Diagnosis(MissingCommand, reason), *diagnoses), {})
    server_variables = server.client.environment.passed_variables(variables) | config_checks.entry_environment(
        server, values
    )
    diagnoses += config_checks.check_environment(server, variables, server_variables)
    expanded_words = [expand_text(word, server.client, values) for word in words]
    folder = _start_folder(server, machine)
    obstacle = _recording_diagnosis(server, expanded_words, server_variables, values, folder)
    if obstacle is not None and obstacle.verdict.fails:
        return ExaminationResult(server.name, server.client.id, (obstacle, *diagnoses), {})
    diagnoses += [obstacle] if obstacle is not None else []
    return examine_command(
        server.name,
        expanded_words,
        server_variables,
        folder,
        machine,
        recorder,
        server.client.start_timeout_s,
        server.client.id,
        diagnoses,
        # The advice quotes the entry's words unexpanded, because the values of variables may be secrets.
        split_hint=entry_text.split_entry_text(server, programs.split_words(words[0])),
    )


def _doctor_command(server: Server) -> str:
    """Return the command that examines a server by its name."""
    return f"mcpproxy doctor {server.client.id} {shlex.quote(server.name)}"


def _distrust_diagnosis(server: Server, machine: Machine, trust: ServerTrust) -> Diagnosis:
    """Return the diagnosis of a server that the user has not approved."""
    command = _doctor_command(server)
    if trust.distrust_reason:
        return Diagnosis(
            UntrustedServer,
            trust.distrust_reason,
            f"approve it in {server.client.title}, or start it anyway: {command}",
        )
    evidence = (
        f"{machine.display_path(server.file)} belongs to the project; nothing says that {server.client.title} trusts it"
    )
    return Diagnosis(MissingConsent, evidence, f"if you trust it, run {command}")


def _route_diagnosis(server: Server, *, is_listener: bool) -> Diagnosis | None:
    """Return the fault that keeps the client from reaching a routed server through mcpproxy, or None."""
    if server.wrapped_command is not None and not server.wrapped_command.program_exists:
        return Diagnosis(
            MissingProgram, f"{server.wrapped_command.program}, which routes it, is missing", "run `mcpproxy install`"
        )
    if is_listener and server.url_member is not None:
        port = urlsplit(server.url_member[1]).port
        up = running_up(state_folder())
        if up is None:
            return Diagnosis(ClosedPort, f"mcpproxy does not listen on 127.0.0.1:{port}", "start `mcpproxy up`")
        if port not in up.ports:
            evidence = f"`mcpproxy up` is running, but does not listen on 127.0.0.1:{port}"
            return Diagnosis(ClosedPort, evidence, "its messages say why: another program may have the port")
    return None


def _recording_diagnosis(
    server: Server, command: Sequence[str], variables: Mapping[str, str], values: Mapping[str, str], folder: Path
) -> Diagnosis | None:
    """Return the fault that keeps the recorder of a routed server from creating its capture, or None."""
    if server.wrapped_command is None:
        return None
    unrecorded_note = next((note for note in unrecorded_servers() if note.name == server.wrapped_command.name), None)
    capture = expand_text(server.wrapped_command.capture, server.client, values)
    obstacle = destination.find_obstacle(capture, server.wrapped_command.name, command, variables, folder)
    if obstacle is None and unrecorded_note is not None:
        return Diagnosis(
            UnrecordedServer, note_text(unrecorded_note), f"restart it in {server.client.title}: it can be recorded now"
        )
    if obstacle is None:
        return None
    if server.wrapped_command.is_passing:
        note_suffix = "" if unrecorded_note is None else f"; {note_text(unrecorded_note)}"
        advice = f"make {obstacle.path} a directory that only you can write to, with free space on its disk"
        return Diagnosis(UnrecordedServer, obstacle.reason + note_suffix, advice)
    arguments = f"{server.client.id} --server {shlex.quote(server.name)}"
    commands = f"`mcpproxy uninstall {arguments}`, then `mcpproxy install {arguments} --capture DIR`"
    advice = f"make {obstacle.path} a directory that only you can write to, or record elsewhere: {commands}"
    return Diagnosis(FailedRecording, obstacle.reason, advice)


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
) -> ExaminationResult:
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
        return ExaminationResult(name, client, (Diagnosis(EarlyExit, evidence), *remarks), {})
    fault = programs.diagnose_command(words[0], variables, folder, machine.home)
    if fault is not None:
        split_diagnosis = (
            programs.diagnose_unsplit_command(words[0], variables, folder, machine.home)
            if fault.verdict is MissingProgram
            else None
        )
        if split_diagnosis is not None:
            if split_hint is None:
                split_hint = f"run mcpproxy doctor -- {shlex.join([*programs.split_words(words[0]), *words[1:]])}"
            fault = split_diagnosis._replace(advice=split_diagnosis.advice + split_hint)
        return ExaminationResult(name, client, (fault, *remarks), {})
    limit_s = min(max(2 * start_s, MIN_ATTEMPT_S), MAX_ATTEMPT_S)
    outcome = process_attempt.attempt_command(recorder, words, variables, folder, limit_s)
    failure = _failure_diagnosis(outcome, limit_s)
    slow_remark = diagnose_slowness(outcome.list_s, start_s)
    times = {"first_byte": outcome.first_byte_s, "initialize": outcome.initialize_s, "tools_list": outcome.list_s}
    timings = {key: value * 1000 for key, value in times.items() if value is not None}
    all_remarks = list(remarks)
    if outcome.noise_lines:
        all_remarks.insert(0, Diagnosis(LogOnStdout, f"{outcome.noise_lines[0][:200]!r}"))
    if failure is None and slow_remark is not None:
        all_remarks.insert(0, slow_remark)
    return ExaminationResult(name, client, (*([failure] if failure else []), *all_remarks), timings, outcome.tools)


def diagnose_slowness(duration_s: float | None, limit_s: float) -> Diagnosis | None:
    """Return the diagnosis of a server that was slow to answer, or None if it was quick."""
    if duration_s is None or duration_s <= limit_s / 2:
        return None
    evidence = f"it took {_seconds_text(duration_s)}, while the client allows {_seconds_text(limit_s)}"
    return Diagnosis(StartTimeout if duration_s > limit_s else SlowStart, evidence)


def _seconds_text(seconds: float) -> str:
    return duration(nanoseconds(seconds * 1000))


def examine_url(
    name: str,
    url: str,
    headers: Mapping[str, str],
    *,
    is_sse: bool,
    client: str | None = None,
    remarks: Sequence[Diagnosis] = (),
) -> ExaminationResult:
    """Examine a server that has a URL; the arguments are those of `examine_command` and `http_attempt.attempt_url`."""
    outcome = http_attempt.attempt_url(url, headers, is_sse=is_sse, limit_s=HTTP_TIMEOUT_S)
    timings = {} if outcome.initialize_s is None else {"initialize": outcome.initialize_s * 1000}
    diagnoses = (*([outcome.diagnosis] if outcome.diagnosis else []), *outcome.remarks, *remarks)
    return ExaminationResult(name, client, diagnoses, timings, outcome.tools)


def _failure_diagnosis(outcome: ProcessAttempt, limit_s: float) -> Diagnosis | None:
    stderr_text = "; ".join(outcome.stderr)
    if outcome.launch_error:
        return Diagnosis(EarlyExit, f"the recorder could not be started: {outcome.launch_error}")
    if outcome.cannot_record:
        advice = "set TMPDIR to a directory that only you can write to, on a disk with free space, and try again"
        return Diagnosis(FailedRecording, outcome.cannot_record, advice)
    if outcome.error:
        return Diagnosis(RefusedRequest, outcome.error)
    if outcome.result is not None:
        return None
    if outcome.status is not None:
        ending = f"killed by signal {-outcome.status}" if outcome.status < 0 else f"exit status {outcome.status}"
        return Diagnosis(EarlyExit, f"{ending}: {stderr_text}" if stderr_text else f"{ending}, with nothing on stderr")
    reason = (
        "it is still running, but has closed its stdout" if outcome.is_closed else f"no answer within {limit_s:.0f} s"
    )
    return Diagnosis(MissingAnswer, f"{reason}{f'; stderr: {stderr_text}' if stderr_text else ''}")


def _start_folder(server: Server, machine: Machine) -> Path:
    start = server.file.parent if server.client.starts_in_file_folder else machine.directory
    working_directory = server.entry.get("cwd") or server.entry.get("working_directory")
    if isinstance(working_directory, str) and working_directory:
        return start / os.path.expanduser(expand_text(working_directory, server.client, variable_values(machine)))
    return start


def _headers(server: Server, values: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the entry, which the client sends with every request."""
    client, entry = server.client, server.entry
    headers = {
        str(name): expand_text(str(value), client, values)
        for member in ("headers", "http_headers")
        for name, value in _dict_or_empty(entry.get(member)).items()
    }
    headers |= {
        str(name): values.get(str(value), "") for name, value in _dict_or_empty(entry.get("env_http_headers")).items()
    }
    token = values.get(str(entry.get("bearer_token_env_var", "")))
    return headers | ({"Authorization": f"Bearer {token}"} if token else {})


def _dict_or_empty(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _is_sse(server: Server) -> bool:
    kind = server.entry.get("type", server.entry.get("transport"))
    if isinstance(kind, str):
        return kind == "sse"
    return (
        server.url_member is not None and server.url_member[0] == ("url",) and ("httpUrl",) in server.client.url_members
    )
