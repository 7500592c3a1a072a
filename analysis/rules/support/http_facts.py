"""Faults in the headers with which modern HTTP requests repeat values from the body.

They are computed once for each exchange, because several rules need them: the rules about the client's headers, and the
rule about servers that accept faulty headers.
"""

import base64
import binascii
import re
from typing import Any, Final, NamedTuple

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.message import InvalidMessage, Request
from analysis.conversation.session import PROTOCOL_VERSION
from analysis.protocol.extensions import EXTENSION_METHODS
from analysis.protocol.json_pointer import decode_steps, encode_step
from analysis.rules.support.eras import member, shortened, speaks_modern
from analysis.rules.support.listings import tools_of
from analysis.rules.tool.schemas import HEADER_KEYWORD, annotations_of

METHOD_FIELD: Final = "mcp-method"
NAME_FIELD: Final = "mcp-name"
PARAM_FIELD: Final = "mcp-param-"
NAME_MEMBERS: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **{name: method.name_member for name, (_, method) in EXTENSION_METHODS.items() if method.has_name_header},
}
"""Methods whose requests have an `Mcp-Name` header, each with the member of the params that the header repeats."""
FRESH_UNTIL_KEY: Final = "http tools until"
"""The key in a session's memory for the time when its list of tools expires; absent if the list does not expire."""

_match_sentinel: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL).fullmatch
_MAX_ARGUMENT_DEPTH: Final = 32
_MAX_ANNOTATIONS: Final = 64
"""The most annotated members of a tool that are examined."""
_FAULTS_KEY: Final = "header faults"


class Fault(NamedTuple):
    """A fault in the headers of a request."""

    rule: str
    text: str
    pointer: str = ""
    related: tuple[int, ...] = ()


def body_version(http: HttpExchange) -> str | None:
    """Returns the revision that the first message of an exchange names in its `_meta`, or None if it names none."""
    if not http.client_messages or isinstance(http.client_messages[0].message, InvalidMessage):
        return None
    version = http.client_messages[0].message.meta.get(PROTOCOL_VERSION)
    return version if isinstance(version, str) else None


def faults_of(context: MessageContext) -> list[Fault]:
    """Returns the faults in the headers of a modern request; none for other requests, or if the head was lost."""
    http = context.http
    if http is None or not http.method:
        return []
    if _FAULTS_KEY not in http.memory:
        http.memory[_FAULTS_KEY] = _find_faults(context, http)
    return known_faults(http)


def known_faults(http: HttpExchange) -> list[Fault]:
    """Returns the faults that `faults_of` has found in the headers of an exchange; none if it was not called."""
    faults: list[Fault] = http.first_carrier.memory.get(_FAULTS_KEY, [])
    return faults


def _find_faults(context: MessageContext, http: HttpExchange) -> list[Fault]:
    request = context.message
    if not isinstance(request, Request) or request.index is not None or not speaks_modern(context):
        return []
    if context.session.is_legacy or http.may_be_legacy:
        return []  # only Streamable HTTP repeats values in headers
    faults: list[Fault] = []
    _check_method_header(request, http, faults)
    body_name = member(request.params, NAME_MEMBERS.get(request.method, ""))
    if isinstance(body_name, str):
        _check_name_header(body_name, NAME_MEMBERS[request.method], http, faults)
    if request.method == "tools/call":
        _check_param_headers(context, request, http, faults)
    return faults


def _check_method_header(request: Request, http: HttpExchange, faults: list[Fault]) -> None:
    header_value, text = http.fields.get(METHOD_FIELD), ""
    if header_value is None:
        text = "Mcp-Method is missing"
    elif METHOD_FIELD in http.repeated_fields:
        text = "Mcp-Method is sent twice"
    elif header_value != request.method:
        text = (
            f"Mcp-Method is {shortened(header_value)!r}, but the method of the message is {shortened(request.method)!r}"
        )
    if text:
        faults.append(Fault("http/method-header", text, "/method"))


def _check_name_header(body_value: str, name: str, http: HttpExchange, faults: list[Fault]) -> None:
    header_value, pointer = http.fields.get(NAME_FIELD), f"/params/{name}"
    if header_value is None:
        faults.append(Fault("http/name-header", "Mcp-Name is missing", pointer))
    elif NAME_FIELD in http.repeated_fields:
        faults.append(Fault("http/name-header", "Mcp-Name is sent twice", pointer))
    elif fault := _encoding_fault(header_value, body_value):
        faults.append(Fault("http/header-encoding", f"Mcp-Name {fault}", pointer))
    elif _decoded(header_value) != body_value:
        text = f"Mcp-Name is not the {name} in the message"
        if name == "name":  # a URI or a task id may give access to anyone who reads it
            text = f"Mcp-Name is {shortened(header_value)!r}, but the name in the message is {shortened(body_value)!r}"
        faults.append(Fault("http/name-header", text, pointer))


def _check_param_headers(context: MessageContext, request: Request, http: HttpExchange, faults: list[Fault]) -> None:
    name, arguments = member(request.params, "name"), member(request.params, "arguments")
    if request.t_ns > context.session.memory.get(FRESH_UNTIL_KEY, request.t_ns):
        return
    tool = tools_of(context.session).entry(name, request, context.session)
    schema = tool.schema("inputSchema", context.rank) if tool is not None else None
    if tool is None or schema is None:
        return
    annotations = annotations_of(schema, tool.item["inputSchema"])
    if len(annotations) > _MAX_ANNOTATIONS or any(annotation.fault is not None for annotation in annotations):
        return
    for annotation in annotations:
        path = _argument_path(annotation.pointer)
        header = _annotated_header(tool.item["inputSchema"], path)
        if header is None:
            continue
        field, value = PARAM_FIELD + header.lower(), _argument(arguments, path)
        header_value = http.fields.get(field)
        pointer = "/params/arguments/" + "/".join(encode_step(name) for name in path)
        text, rule = _param_fault(header_value, value, field in http.repeated_fields), "http/param-header"
        if not text and header_value is not None and isinstance(value, (str, int, float)):
            if fault := _encoding_fault(header_value, value if isinstance(value, str) else ""):
                text, rule = fault, "http/header-encoding"
            elif not _is_same(_decoded(header_value), value):
                text = "does not match the argument in the message"
        if text:
            faults.append(Fault(rule, f"Mcp-Param-{header[:40]} {text}", pointer[:200], (tool.seq,)))


def _param_fault(header_value: str | None, value: Any, is_doubled: bool) -> str:
    if value is None:
        return "is sent without the argument" if header_value is not None else ""
    if not isinstance(value, (str, int, float)):
        return ""  # the argument does not fit its schema
    if header_value is None:
        return "is missing"
    return "is sent twice" if is_doubled else ""


def _argument_path(pointer: str) -> list[str]:
    """Returns the path to an annotated argument, given the pointer to its annotation."""
    return decode_steps(pointer)[1:-1:2]


def _annotated_header(schema: Any, path: list[str]) -> str | None:
    for name in path[:_MAX_ARGUMENT_DEPTH]:
        schema = member(member(schema, "properties"), name)
    header = member(schema, HEADER_KEYWORD)
    return header if isinstance(header, str) and len(path) <= _MAX_ARGUMENT_DEPTH else None


def _argument(arguments: Any, path: list[str]) -> Any:
    for name in path:
        arguments = member(arguments, name)
    return arguments


def _is_same(header_value: str | None, value: Any) -> bool:
    if header_value is None:
        return False
    if isinstance(value, bool):
        return header_value == ("true" if value else "false")
    if isinstance(value, str):
        return header_value == value
    try:
        return float(header_value) == float(value)
    except (ValueError, OverflowError):
        return False


def _encoding_fault(header_value: str, body_value: str) -> str:
    """Returns the fault in the encoding of a text in a header, or an empty string if there is none."""
    is_plain = header_value.isascii() and header_value.isprintable()
    if is_plain and header_value == body_value and header_value[:1] not in "= " and header_value[-1:] != " ":
        return ""  # the usual case
    if not is_plain and not all("\x20" <= char <= "\x7e" or char == "\t" for char in header_value):
        return "has characters that are not ASCII"
    sentinel = _match_sentinel(header_value)
    if sentinel is not None:
        if _decoded(header_value) is None:
            return "does not contain base64-encoded UTF-8"
        return "looks encoded, but is the text itself" if header_value == body_value else ""
    whitespace = " \t"
    if header_value != header_value.strip(whitespace) or (
        header_value == body_value.strip(whitespace) and header_value != body_value
    ):
        return "begins or ends with white space, which gets lost"
    return ""


def _decoded(header_value: str) -> str | None:
    """Returns the text that a header encodes, or None if it cannot be decoded."""
    sentinel = _match_sentinel(header_value)
    if sentinel is None:
        return header_value
    try:
        raw = base64.b64decode(sentinel[1].encode("ascii"), validate=True)
        return raw.decode("utf-8") if base64.b64encode(raw).decode("ascii") == sentinel[1] else None
    except (binascii.Error, ValueError):
        return None


def version_fault(http: HttpExchange) -> str:
    """Returns the fault in the revision header, compared with the message, or an empty string if there is none."""
    message_version = body_version(http)
    if message_version is None:
        return ""
    header_version = http.fields.get(VERSION_FIELD)
    return "missing" if header_version is None else "mismatch" if header_version != message_version else ""
