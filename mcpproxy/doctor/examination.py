"""Examines one server: checks its entry, then tries to use it, then reports what was slow or odd about it."""

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
from mcpproxy.doctor.hosted_checklist import Checklist
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
"""The maximum duration of an attempt, regardless of what the client allows."""
PATIENCE_S: Final = 10.0
"""The minimum wait before a server is given up, to distinguish one that answers late from one that never does."""
HTTP_S: Final = 20.0


class Result(NamedTuple):
    """The findings about one server."""

    name: str
    client: str | None
    """The name of its client; None for a command or URL that was named."""
    diagnoses: tuple[Diagnosis, ...]
    """The first fault, if there is one; the rest are remarks."""
    timings_ms: Mapping[str, float]
    """For an answered attempt: `first_byte`, `initialize`, `tools_list`, each counted from the start."""
    tools: int | None = None
    checklist: Checklist | None = None
    """What was checked for a hosted client; None if the server was examined for no hosted client."""

    @property
    def fails(self) -> bool:
        """Whether the client cannot use the server."""
        return any(diagnosis.verdict.fails for diagnosis in self.diagnoses)

    @property
    def is_examined(self) -> bool:
        """Whether anything is known about the server: if one needs consent, only its entry was read."""
        return self.fails or not any(diagnosis.verdict.leaves_unexamined for diagnosis in self.diagnoses)


def examine(
    server: Server, machine: Machine, recorder: Sequence[str], url: str | None = None, *, is_named: bool = False
) -> Result:
    """Examine a server as its client would start it.

    Args:
        server: the entry.
        machine: where the client runs.
        recorder: the command of mcpproxy.
        url: the server's own URL, if it is routed to one of mcpproxy's listeners; by default, the URL of the entry.
        is_named: whether the user has named this server, and so agreed to start it.
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
        untrusted = Diagnosis(NotTrusted, trust.distrust, f"mend the server, then approve it in {title}")
        return result._replace(diagnoses=(*result.diagnoses, untrusted))
    advice = f"the server works, but {title} does not start it until you approve it there"
    return result._replace(diagnoses=(Diagnosis(NotTrusted, trust.distrust, advice), *result.diagnoses))


def overridden(server: Server, used: Server, machine: Machine) -> Result:
    """The result for an entry that is not started, because its client uses another entry of the same name."""
    state = ", which is switched off" if used.is_disabled else ""
    evidence = f"{server.client.title} uses the {used.scope} entry in {machine.shown(used.file)} instead{state}"
    advice = f"to start it all the same, run {_naming(server)}"
    return Result(server.name, server.client.id, (Diagnosis(Overridden, evidence, advice),), {})


def lost_route(server: Server, machine: Machine) -> Result:
    """The result for an entry that may lead to one of mcpproxy's ports, of which there is no record."""
    port = urlsplit(server.url[1]).port if server.url is not None else None
    evidence = f"127.0.0.1:{port} may be a port of mcpproxy, but no record of `install` says of which server"
    advice = f"write the server's own URL into {machine.shown(server.file)}"
    return Result(server.name, server.client.id, (Diagnosis(PortClosed, evidence, advice),), {})


def _examine(server: Server, machine: Machine, recorder: Sequence[str], url: str | None) -> Result:
    """Examine a server that may be started."""
    diagnoses = list(config_checks.check_entry(server, machine))
    if any(diagnosis.verdict.fails or diagnosis.verdict.leaves_unexamined for diagnosis in diagnoses):
        return Result(server.name, server.client.id, tuple(diagnoses), {})
    cut = _cut_route(server, is_listener=url is not None)
    if cut is not None:
        return Result(server.name, server.client.id, (cut, *diagnoses), {})
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
    given = server.client.environment.given(variables) | config_checks.entry_environment(server, values)
    diagnoses += config_checks.check_environment(server, variables, given)
    plain = [expanded(word, server.client, values) for word in words]
    folder = _folder(server, machine)
    obstacle = _unrecorded(server, plain, given, values, folder)
    if obstacle is not None and obstacle.verdict.fails:
        return Result(server.name, server.client.id, (obstacle, *diagnoses), {})
    diagnoses += [obstacle] if obstacle is not None else []
    return examine_command(
        server.name,
        plain,
        given,
        folder,
        machine,
        recorder,
        server.client.start_s,
        server.client.id,
        diagnoses,
        # From the entry's own words: the values of its variables may be secrets.
        apart=entry_text.split_entry_text(server, programs.split(words[0])),
    )


def _naming(server: Server) -> str:
    """The command that examines a server by its name."""
    return f"mcpproxy doctor {server.client.id} {shlex.quote(server.name)}"


def _untrusted(server: Server, machine: Machine, trust: Trust) -> Diagnosis:
    """The diagnosis of a server that the user has not approved."""
    how = _naming(server)
    if trust.distrust:
        return Diagnosis(NotTrusted, trust.distrust, f"approve it in {server.client.title}, or start it anyway: {how}")
    evidence = f"{machine.shown(server.file)} belongs to the project; nothing says that {server.client.title} trusts it"
    return Diagnosis(NeedsConsent, evidence, f"if you trust it, run {how}")


def _cut_route(server: Server, *, is_listener: bool) -> Diagnosis | None:
    """What keeps the client from reaching a routed server through mcpproxy, or None if nothing does."""
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
    server: Server, command: Sequence[str], given: Mapping[str, str], values: Mapping[str, str], folder: Path
) -> Diagnosis | None:
    """What keeps the recorder in front of a routed server from creating its capture, or None if nothing does."""
    if server.routed is None:
        return None
    running = next((note for note in unrecorded() if note.name == server.routed.name), None)
    capture = expanded(server.routed.capture, server.client, values)
    obstacle = destination.obstacle(capture, server.routed.name, command, given, folder)
    if obstacle is None and running is not None:
        return Diagnosis(
            RunsUnrecorded, note_text(running), f"restart it in {server.client.title}: it can be recorded now"
        )
    if obstacle is None:
        return None
    if server.routed.passes:
        since = "" if running is None else f"; {note_text(running)}"
        advice = f"make {obstacle.place} a directory that only you can write to, with free space on its disk"
        return Diagnosis(RunsUnrecorded, obstacle.reason + since, advice)
    choice = f"{server.client.id} --server {shlex.quote(server.name)}"
    elsewhere = f"`mcpproxy uninstall {choice}`, then `mcpproxy install {choice} --capture DIR`"
    advice = f"make {obstacle.place} a directory that only you can write to, or record elsewhere: {elsewhere}"
    return Diagnosis(CannotRecord, obstacle.reason, advice)


def examine_command(
    name: str,
    words: Sequence[str],
    given: dict[str, str],
    folder: Path,
    machine: Machine,
    recorder: Sequence[str],
    start_s: float,
    client: str | None = None,
    remarks: Sequence[Diagnosis] = (),
    *,
    apart: str | None = None,
) -> Result:
    """Examine a command.

    Args:
        name: the name of the server.
        words: the command.
        given: its environment.
        folder: where it starts.
        machine: where it runs.
        recorder: the command of mcpproxy.
        start_s: how long the client waits, in seconds.
        client: the name of the client.
        remarks: diagnoses so far.
        apart: the advice if the first word turns out to contain the arguments as well; by default, how to type them as
            separate words.
    """
    unfit = next(
        (text for text in (*words, str(folder), *given, *given.values()) if not programs.is_passable(text)), None
    )
    if unfit is None:
        unfit = next((variable for variable in given if "=" in variable), None)
    if unfit is not None:
        evidence = f"{unfit[:200]!r} cannot be an argument, a variable or the folder of a process"
        return Result(name, client, (Diagnosis(Exits, evidence), *remarks), {})
    missing = programs.diagnose(words[0], given, folder, machine.home)
    if missing is not None:
        line = programs.unsplit_command(words[0], given, folder, machine.home) if missing.verdict is NotFound else None
        if line is not None:
            if apart is None:
                apart = f"run mcpproxy doctor -- {shlex.join([*programs.split(words[0]), *words[1:]])}"
            missing = line._replace(advice=line.advice + apart)
        return Result(name, client, (missing, *remarks), {})
    limit_s = min(max(2 * start_s, PATIENCE_S), MAX_ATTEMPT_S)
    seen = process_attempt.attempt(recorder, words, given, folder, limit_s)
    failure = _failure(seen, limit_s)
    slow = slowness(seen.list_s, start_s)
    times = {"first_byte": seen.first_byte_s, "initialize": seen.initialize_s, "tools_list": seen.list_s}
    timings = {key: value * 1000 for key, value in times.items() if value is not None}
    more = list(remarks)
    if seen.noise:
        more.insert(0, Diagnosis(LogOnStdout, f"{seen.noise[0][:200]!r}"))
    if failure is None and slow is not None:
        more.insert(0, slow)
    return Result(name, client, (*([failure] if failure else []), *more), timings, seen.tools)


def slowness(took_s: float | None, allowed_s: float) -> Diagnosis | None:
    """The diagnosis of how long a server took to answer, in seconds, or None if it was quick."""
    if took_s is None or took_s <= allowed_s / 2:
        return None
    evidence = f"it took {_text(took_s)}, while the client allows {_text(allowed_s)}"
    return Diagnosis(TooSlow if took_s > allowed_s else Slow, evidence)


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
    """Examine a URL."""
    seen = http_attempt.attempt(url, headers, is_sse=is_sse, limit_s=HTTP_S)
    timings = {} if seen.initialize_s is None else {"initialize": seen.initialize_s * 1000}
    diagnoses = (*([seen.diagnosis] if seen.diagnosis else []), *seen.remarks, *remarks)
    return Result(name, client, diagnoses, timings, seen.tools)


def _failure(seen: Attempt, limit_s: float) -> Diagnosis | None:
    stderr_text = "; ".join(seen.stderr)
    if seen.launch_error:
        return Diagnosis(Exits, f"the recorder could not be started: {seen.launch_error}")
    if seen.cannot_record:
        advice = "set TMPDIR to a directory that only you can write to, on a disk with free space, and try again"
        return Diagnosis(CannotRecord, seen.cannot_record, advice)
    if seen.error:
        return Diagnosis(Refused, seen.error)
    if seen.result is not None:
        return None
    if seen.status is not None:
        how = f"killed by signal {-seen.status}" if seen.status < 0 else f"exit status {seen.status}"
        return Diagnosis(Exits, f"{how}: {stderr_text}" if stderr_text else f"{how}, with nothing on stderr")
    why = "it is still running, but has closed its stdout" if seen.is_closed else f"no answer within {limit_s:.0f} s"
    return Diagnosis(NoAnswer, f"{why}{f'; stderr: {stderr_text}' if stderr_text else ''}")


def _folder(server: Server, machine: Machine) -> Path:
    start = server.file.parent if server.client.starts_in_file_folder else machine.directory
    named = server.entry.get("cwd") or server.entry.get("working_directory")
    if isinstance(named, str) and named:
        return start / os.path.expanduser(expanded(named, server.client, values_of(machine)))
    return start


def _headers(server: Server, values: Mapping[str, str]) -> dict[str, str]:
    """The headers that the entry makes the client send."""
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
