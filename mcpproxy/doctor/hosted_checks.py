"""Compares the responses of a server with what a hosted client requires: a check for each kind of requirement.

A check returns a list of problems, which is empty if the requirement is met. It returns None if the responses do not
show whether it is met, because the server requires a login or because an earlier requirement is not met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from mcpproxy.clients.hosted import (
    BY_PATH,
    CIMD,
    DCR,
    EXCLUSIVE_MINIMUM,
    REFERENCE,
    TYPE_LIST,
    Kind,
    Requirement,
)
from mcpproxy.doctor.hosted_observation import Document, Observation, pointer_of, shown_url
from mcpproxy.doctor.hosted_verdicts import (
    ExcessiveToolCount,
    ForeignRedirect,
    InvalidToolName,
    MissingChallenge,
    MissingCorsHeader,
    MissingMetadataPointer,
    MissingPathMetadata,
    MissingPkce,
    MissingRegistration,
    MissingResourceMetadata,
    MissingServerMetadata,
    MissingToolAnnotations,
    MissingTools,
    PlainHttpUrl,
    ResourceMismatch,
    SlowDiscovery,
    UnsupportedToolSchema,
    UnsupportedTransport,
    UrlCredential,
)
from mcpproxy.doctor.verdict import Verdict
from mcpproxy.wording.counts import count_text

MAX_LISTED: Final = 5
"""The most tools that one verdict names."""
_MAX_NAME_CHARS: Final = 80
_MAX_NODES: Final = 100_000
"""The most values of all schemas that are examined."""
_DATA: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords of a schema whose values are not schemas."""
_ASKED: Final = ("authorization", "content-type", "mcp-protocol-version", "mcp-session-id")


class Problem(NamedTuple):
    """A requirement that is not met."""

    verdict: type[Verdict]
    evidence: str
    """The request and the response."""


Check = Callable[[Any, Observation], "Iterable[Problem] | None"]
"""Takes the value of the requirement and the responses of the server."""


def problems_of(requirement: Requirement, server: Observation) -> list[Problem] | None:
    """Returns the problems with one requirement, or None if the responses do not show any."""
    problems = CHECKS[requirement.kind](requirement.value, server)
    return None if problems is None else list(problems)


def _https(_value: None, server: Observation) -> list[Problem]:
    return [] if server.url.startswith("https://") else [Problem(PlainHttpUrl, "the URL begins with http://")]


def _query(names: tuple[str, ...], server: Observation) -> list[Problem]:
    pairs = server.url.partition("?")[2].partition("#")[0].split("&")
    secret_names = [name for name in (pair.partition("=")[0] for pair in pairs) if name.lower() in names]
    return [Problem(UrlCredential, f"the query of the URL has {', '.join(secret_names)}")] if secret_names else []


def _transport(value: tuple[str, ...], server: Observation) -> list[Problem] | None:
    if not server.transport:
        return None
    return (
        []
        if server.transport in value
        else [Problem(UnsupportedTransport, f"the server speaks {server.transport} at this URL")]
    )


def _redirect(_value: None, server: Observation) -> list[Problem] | None:
    if server.reply is None:
        return None
    if not server.leaves_origin:
        return []
    return [Problem(ForeignRedirect, f"POST {shown_url(server.url)}: {server.redirect}, which was not followed")]


def _cors(origin: str, server: Observation) -> list[Problem] | None:
    if server.preflight is None or server.reply is None:
        return None
    preflight = {name: value.lower() for name, value in reversed(server.preflight.fields)}
    reply = {name: value.lower() for name, value in reversed(server.reply.fields)}
    allowed = _words(preflight.get("access-control-allow-headers", ""))
    # A wildcard does not cover Authorization (Fetch Standard, CORS protocol).
    missing = [name for name in _ASKED if name not in allowed and (name == "authorization" or "*" not in allowed)]
    exposed = _words(reply.get("access-control-expose-headers", ""))
    asked = f"OPTIONS {shown_url(server.url)} for a page of {origin}: status {server.preflight.status}"
    if not 200 <= server.preflight.status < 300:
        return [Problem(MissingCorsHeader, asked)]
    if not _allows(preflight, origin):
        return [Problem(MissingCorsHeader, f"{asked}, without Access-Control-Allow-Origin for it")]
    if missing:
        return [Problem(MissingCorsHeader, f"{asked}, and Access-Control-Allow-Headers lacks {', '.join(missing)}")]
    if not _allows(reply, origin):
        return [Problem(MissingCorsHeader, "the response to POST has no Access-Control-Allow-Origin for the page")]
    if "mcp-session-id" in reply and not {"*", "mcp-session-id"} & exposed:
        return [Problem(MissingCorsHeader, "the response to POST has Mcp-Session-Id, but does not expose it")]
    return []


def _allows(fields: Mapping[str, str], origin: str) -> bool:
    return fields.get("access-control-allow-origin", "") in ("*", origin)


def _words(text: str) -> set[str]:
    return {word.strip() for word in text.split(",")}


def _challenge(_value: None, server: Observation) -> list[Problem] | None:
    if server.reply is None:
        return None
    if server.refusal is None or server.refusal.status == 401:
        return []
    return [
        Problem(MissingChallenge, f"POST {shown_url(server.url)} without credentials: status {server.refusal.status}")
    ]


def _pointer(_value: None, server: Observation) -> list[Problem] | None:
    if server.refusal is None or server.refusal.status != 401 or server.resource is None:
        return None
    if pointer_of(server.refusal):
        return []
    challenge = server.refusal.value("www-authenticate").partition(" ")[0][:_MAX_NAME_CHARS]
    fault = f"the challenge is {challenge}, without resource_metadata" if challenge else "there is no WWW-Authenticate"
    return [
        Problem(MissingMetadataPointer, f"status 401, and {fault}; the document is at {shown_url(server.resource.url)}")
    ]


def _metadata(places: tuple[str, ...], server: Observation) -> list[Problem] | None:
    if not server.needs_login:
        return None
    if any(document.content and document.place in places for document in server.documents):
        return []
    return [
        Problem(
            MissingResourceMetadata, _requested(document for document in server.documents if document.place in places)
        )
    ]


def _metadata_path(_value: None, server: Observation) -> list[Problem] | None:
    if not server.needs_login or server.resource is None:
        return None
    by_path = next((document for document in server.documents if document.place == BY_PATH), None)
    # If the challenge names that place, it was requested as what the challenge names.
    if by_path is None or by_path.content:
        return []
    return [
        Problem(MissingPathMetadata, f"{_requested([by_path])}; the document is at {shown_url(server.resource.url)}")
    ]


def _resource(_value: None, server: Observation) -> list[Problem] | None:
    if server.resource is None or server.resource.content is None:
        return None
    resource = server.resource.content.get("resource")
    if isinstance(resource, str) and _without_root(resource) == _without_root(server.url):
        return []
    named = f"resource is {shown_url(resource)}" if isinstance(resource, str) else "there is no resource"
    return [
        Problem(
            ResourceMismatch,
            f"GET {shown_url(server.resource.url)}: {named}; the URL is {shown_url(server.url)}",
        )
    ]


def _without_root(url: str) -> str:
    """Returns a URL without the slash that stands for an empty path: with and without it, the URL is the same."""
    return url.removesuffix("/") if url.count("/") == 3 else url


def _server_metadata(_value: None, server: Observation) -> list[Problem] | None:
    if not server.documents or (server.resource is None and server.server_metadata is None):
        return None
    if server.server_metadata is not None:
        return []
    if not server.issuer and server.resource is not None:
        evidence = f"GET {shown_url(server.resource.url)}: there is no authorization server in authorization_servers"
        return [Problem(MissingServerMetadata, evidence)]
    return [Problem(MissingServerMetadata, _requested(server.server_documents))]


def _pkce(method: str, server: Observation) -> list[Problem] | None:
    content = _server_content(server)
    if content is None:
        return None
    methods = content.get("code_challenge_methods_supported")
    if isinstance(methods, list) and method in methods:
        return []
    fault = (
        "no code_challenge_methods_supported" if methods is None else f"no {method} in code_challenge_methods_supported"
    )
    return [Problem(MissingPkce, f"{_server_url(server)}: {fault}")]


def _registration(ways: tuple[str, ...], server: Observation) -> list[Problem] | None:
    content = _server_content(server)
    if content is None:
        return None
    methods = content.get("token_endpoint_auth_methods_supported")
    has_cimd = content.get("client_id_metadata_document_supported") is True
    is_public = isinstance(methods, list) and "none" in methods
    if (CIMD in ways and has_cimd and is_public) or (DCR in ways and content.get("registration_endpoint")):
        return []
    fault = "neither client_id_metadata_document_supported nor registration_endpoint"
    if has_cimd:
        fault = "client_id_metadata_document_supported without none in token_endpoint_auth_methods_supported"
    return [Problem(MissingRegistration, f"{_server_url(server)}: {fault}")]


def _discovery_time(limit_s: float, server: Observation) -> list[Problem] | None:
    timed = {
        document.url: document.seconds
        for document in (*server.documents, *server.server_documents)
        if document.seconds is not None
    }
    if not timed:
        return None
    return [
        Problem(SlowDiscovery, f"GET {shown_url(url)} took {seconds:.1f} s")
        for url, seconds in timed.items()
        if seconds > limit_s
    ]


def _tool_names(pattern: str, server: Observation) -> list[Problem] | None:
    if server.tools is None:
        return None
    names = [name for name in _names(server.tools) if not re.fullmatch(pattern, name)]
    return [Problem(InvalidToolName, f"tools/list: {_listed(names)}")] if names else []


def _tool_annotations(groups: tuple[tuple[str, ...], ...], server: Observation) -> list[Problem] | None:
    if server.tools is None:
        return None
    problems = []
    for group in groups:
        names = [
            name for tool, name in zip(server.tools, _names(server.tools), strict=True) if not _has_one(tool, group)
        ]
        if names:
            problems.append(Problem(MissingToolAnnotations, f"tools/list: no {' or '.join(group)} on {_listed(names)}"))
    return problems


def _has_one(tool: Mapping[str, Any], group: tuple[str, ...]) -> bool:
    annotations = tool.get("annotations")
    known = annotations if isinstance(annotations, dict) else {}
    return any(name in known for name in group) or ("title" in group and bool(tool.get("title")))


def _tool_schema(forms: tuple[str, ...], server: Observation) -> list[Problem] | None:
    if server.tools is None:
        return None
    found: dict[str, list[str]] = {}
    left = _MAX_NODES
    for tool, name in zip(server.tools, _names(server.tools), strict=True):
        forms_of_tool, left = _forms_in((tool.get("inputSchema"), tool.get("outputSchema")), left)
        for form in forms_of_tool:
            found.setdefault(form, []).append(name)
    return [
        Problem(UnsupportedToolSchema, f"tools/list: {_WORDS[form]} in {_listed(names)}")
        for form, names in found.items()
        if form in forms
    ]


_WORDS: Final = {
    REFERENCE: "$ref",
    TYPE_LIST: "a list as type",
    EXCLUSIVE_MINIMUM: "a number as exclusiveMinimum",
}


def _forms_in(schemas: Iterable[object], left: int) -> tuple[list[str], int]:
    """Returns the forms in some schemas, and how many more values may be examined."""
    forms: dict[str, None] = {}
    waiting = [schema for schema in schemas if isinstance(schema, dict)]
    while waiting and left > 0:
        schema = waiting.pop()
        left -= 1 + len(schema)
        least = schema.get("exclusiveMinimum")
        if isinstance(schema.get("$ref"), str):
            forms[REFERENCE] = None
        if isinstance(schema.get("type"), list):
            forms[TYPE_LIST] = None
        if isinstance(least, int | float) and not isinstance(least, bool):
            forms[EXCLUSIVE_MINIMUM] = None
        for keyword, value in schema.items():
            if keyword not in _DATA:
                waiting += [
                    inner for inner in (value if isinstance(value, list) else [value]) if isinstance(inner, dict)
                ]
    return list(forms), left


def _tool_count(limit: int, server: Observation) -> list[Problem] | None:
    if server.tools is None:
        return None
    return (
        [Problem(ExcessiveToolCount, f"tools/list: {count_text(len(server.tools), 'tool')}")]
        if len(server.tools) > limit
        else []
    )


def _required_tools(names: tuple[str, ...], server: Observation) -> list[Problem] | None:
    if server.tools is None:
        return None
    known = set(_names(server.tools))
    missing = [name for name in names if name not in known]
    return [Problem(MissingTools, f"tools/list: no {' and no '.join(missing)}")] if missing else []


def _names(tools: Iterable[Mapping[str, Any]]) -> list[str]:
    return [str(tool.get("name", "")) for tool in tools]


def _listed(names: list[str]) -> str:
    shown = ", ".join(name[:_MAX_NAME_CHARS] or "a tool without a name" for name in names[:MAX_LISTED])
    return f"{shown} and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else shown


def _requested(documents: Iterable[Document]) -> str:
    """Returns the requests and their outcomes, as text."""
    return "; ".join(
        f"GET {shown_url(document.url) or document.url[:_MAX_NAME_CHARS]}: {document.outcome}" for document in documents
    )


def _server_content(server: Observation) -> dict[str, Any] | None:
    return None if server.server_metadata is None else server.server_metadata.content


def _server_url(server: Observation) -> str:
    return "" if server.server_metadata is None else f"GET {shown_url(server.server_metadata.url)}"


CHECKS: Final[Mapping[Kind, Check]] = {
    "https": _https,
    "query": _query,
    "transport": _transport,
    "redirect": _redirect,
    "cors": _cors,
    "challenge": _challenge,
    "pointer": _pointer,
    "metadata": _metadata,
    "metadata-path": _metadata_path,
    "resource": _resource,
    "server-metadata": _server_metadata,
    "pkce": _pkce,
    "registration": _registration,
    "discovery-time": _discovery_time,
    "tool-names": _tool_names,
    "tool-annotations": _tool_annotations,
    "tool-schema": _tool_schema,
    "tool-count": _tool_count,
    "required-tools": _required_tools,
}
"""The check for each kind of requirement, except the informative ones."""
