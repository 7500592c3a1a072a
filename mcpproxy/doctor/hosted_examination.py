"""Examines the URL of a server for a hosted client: sends its requests, and checks each requirement."""

from __future__ import annotations

from typing import Final

from mcpproxy.clients.hosted import OF_DOCUMENTS, HostedClient, Requirement
from mcpproxy.doctor.examination import HTTP_TIMEOUT_S, ExaminationResult
from mcpproxy.doctor.hosted_checklist import Checklist
from mcpproxy.doctor.hosted_checks import CHECKS, Problem, problems_of
from mcpproxy.doctor.hosted_observation import Observation, observe
from mcpproxy.doctor.verdict import Diagnosis
from mcpproxy.doctor.verdicts import UnfollowedRedirect

TOTAL_S: Final = 60.0
"""The maximum time of all requests for one client, in seconds."""
_MAX_EVIDENCE_CHARS: Final = 500


def examine_hosted(
    name: str, url: str, client: HostedClient, limit_s: float = HTTP_TIMEOUT_S, total_s: float = TOTAL_S
) -> ExaminationResult:
    """Examine a URL for a hosted client; returns the result, with a checklist.

    Args:
        name: the name of the server in the result.
        url: the URL, as users would enter it in the client.
        client: the hosted client.
        limit_s: the maximum time of each request, in seconds.
        total_s: the maximum time of all requests, in seconds.
    """
    origin = next((str(each.value) for each in client.requirements if each.kind == "cors"), "")
    server = observe(client, url, origin, limit_s, total_s)
    diagnoses = [] if server.failure is None else [server.failure]
    checked: list[Requirement] = []
    unchecked: list[tuple[Requirement, str]] = []
    for requirement in client.requirements:
        if requirement.kind not in CHECKS:
            continue
        problems = problems_of(requirement, server)
        if problems is None:
            unchecked.append((requirement, _reason(requirement, server)))
        else:
            checked.append(requirement)
        cited = f"{client.title} requires {requirement.text} ({requirement.source}, read {requirement.read})"
        diagnoses += [_diagnosis(problem, cited) for problem in problems or ()]
    if server.redirect and not (server.leaves_origin and any(each.kind == "redirect" for each in checked)):
        diagnoses.insert(0, _redirected(server))
    timings = {} if server.initialize_s is None else {"initialize": server.initialize_s * 1000}
    tools = None if server.tools is None else len(server.tools)
    checklist = Checklist(client, tuple(checked), tuple(unchecked))
    return ExaminationResult(name, client.id, (*diagnoses, *server.remarks), timings, tools, checklist)


def _reason(requirement: Requirement, server: Observation) -> str:
    """Returns why a requirement could not be checked."""
    if server.reply is None or server.failure is not None or server.redirect:
        return "the server did not get that far"
    if requirement.kind in OF_DOCUMENTS:
        return "a document is missing" if server.needs_login else "the server requires no login"
    return "the server requires a login" if server.needs_login else "doctor lists no tools over HTTP+SSE"


def _diagnosis(problem: Problem, cited: str) -> Diagnosis:
    evidence = f"{problem.evidence[:_MAX_EVIDENCE_CHARS]}. {cited}"
    return Diagnosis(problem.verdict, evidence, problem.verdict.first_step())


def _redirected(server: Observation) -> Diagnosis:
    why = (
        ", which is another origin"
        if server.leaves_origin
        else ": clients repeat the POST as a GET, without the message"
    )
    return Diagnosis(UnfollowedRedirect, f"{server.redirect}{why}; it was not followed")
