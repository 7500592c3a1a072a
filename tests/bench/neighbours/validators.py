"""Validators of single messages: each message of a conversation, with the revision in force."""

import importlib
import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpproxy.importers.case import Case
from tests.bench.neighbours.shown import REVISIONS, Found, Message, Row, Unfit, parsed

REVISION: Final = "io.modelcontextprotocol/protocolVersion"


class ValidatedMessage(NamedTuple):
    """A JSON-RPC message, and what a validator needs to know about it."""

    at: int
    body: Any
    is_client: bool
    revision: str
    method: str | None
    """The method or, for a response, that of its request; None if there is no method."""
    params: Any
    """The params or, for a response, those of its request."""


def validated_messages(case: Case, messages: list[Message]) -> Iterator[ValidatedMessage]:
    """Yields each message, with the revision in force and the request that a response is for."""
    in_force = case.members["version"]
    if in_force not in REVISIONS:
        raise Unfit("of no published revision")
    asked: dict[tuple[bool, str], tuple[str, str, Any]] = {}
    for message in messages:
        if message.frame.event or not message.frame.raw.strip():
            continue
        body, is_client = parsed(message), message.frame.dir == "c2s"
        revision, method, params = in_force, None, None
        if isinstance(body, dict):
            key = json.dumps(body.get("id"))
            if isinstance(body.get("method"), str):
                method, params = body["method"], body.get("params")
                revision = _declared(params) or in_force
                asked[is_client, key] = (revision, method, params)
            else:
                revision, method, params = asked.get((not is_client, key), (in_force, None, None))
                result = body.get("result")
                if method == "initialize" and isinstance(result, dict) and result.get("protocolVersion") in REVISIONS:
                    revision = in_force = result["protocolVersion"]
        yield ValidatedMessage(message.at, body, is_client, revision, method, params)


def _declared(params: object) -> str | None:
    meta = params.get("_meta") if isinstance(params, dict) else None
    declared = meta.get(REVISION) if isinstance(meta, dict) else None
    return declared if declared in REVISIONS else None


def types_row(*, gated: bool) -> Row:
    """The types of the official Python SDK, used through its public functions.

    Args:
        gated: whether to report methods that it does not know in the revision, and tasks, which it leaves out on
            purpose. A server of the SDK refuses them, and so every extension.
    """
    jsonrpc, methods = importlib.import_module("mcp_types.jsonrpc"), importlib.import_module("mcp_types.methods")

    def judge(one: ValidatedMessage) -> str | None:
        try:
            jsonrpc.jsonrpc_message_adapter.validate_python(one.body)
            side = "client" if one.is_client else "server"
            if "result" in one.body and one.method is not None and (gated or not _is_task(one)):
                # A result is sent by the side that got the request.
                getattr(methods, f"parse_{side}_result")(one.method, one.revision, one.body["result"])
            elif "method" in one.body:
                kind = "request" if "id" in one.body else "notification"
                getattr(methods, f"parse_{side}_{kind}")(one.method, one.revision, one.params)
        except KeyError:
            return f"no {one.method} in {one.revision}" if gated else None
        except ValueError as error:
            return str(error)
        return None

    def find(case: Case, messages: list[Message]) -> Found:
        return {one.at: text for one in validated_messages(case, messages) if (text := judge(one)) is not None}

    name = "mcp-types, its methods too" if gated else "mcp-types"
    return Row(name, importlib.metadata.version("mcp-types"), find)


def _is_task(one: ValidatedMessage) -> bool:
    result = one.body["result"]
    asked = isinstance(one.params, dict) and "task" in one.params
    return asked or (isinstance(result, dict) and result.get("resultType") == "task")


def schema_row(folder: Path) -> Row:
    """The official schema of the revision, with Python's most used validator."""
    jsonschema = importlib.import_module("jsonschema")
    schemas = {revision: json.loads((folder / f"{revision}.json").read_text()) for revision in REVISIONS}
    kept: dict[tuple[str, ...], Any] = {}

    def validator(revision: str, *names: str) -> Any:
        key = (revision, *names)
        if key not in kept:
            schema = schemas[revision]
            place = "$defs" if "$defs" in schema else "definitions"
            wanted = {"anyOf": [{"$ref": f"#/{place}/{name}"} for name in names]}
            made = jsonschema.validators.validator_for(schema)
            kept[key] = made({"$schema": schema["$schema"], place: schema[place], **wanted})
        return kept[key]

    def judge(one: ValidatedMessage) -> str | None:
        if not validator(one.revision, "JSONRPCMessage").is_valid(one.body):
            return "no JSONRPCMessage"
        if not isinstance(one.body, dict) or one.method is None:
            return None
        schema = schemas[one.revision]
        defined = schema.get("$defs") or schema["definitions"]
        name = _definition(defined, one.method)
        if name is None:
            return None
        if "method" in one.body:
            return None if validator(one.revision, name).is_valid(one.body) else f"no {name}"
        if "result" not in one.body:
            return None
        result = name.removesuffix("Request") + "Result"
        names = [result if result in defined else "EmptyResult"]
        names += ["InputRequiredResult"] if "InputRequiredResult" in defined else []
        if isinstance(one.params, dict) and "task" in one.params and "CreateTaskResult" in defined:
            names.append("CreateTaskResult")
        return None if validator(one.revision, *names).is_valid(one.body["result"]) else f"no {names[0]}"

    def find(case: Case, messages: list[Message]) -> Found:
        return {one.at: text for one in validated_messages(case, messages) if (text := judge(one)) is not None}

    return Row("official schema, jsonschema", importlib.metadata.version("jsonschema"), find)


def _definition(defined: dict[str, Any], method: str) -> str | None:
    for name, one in defined.items():
        if one.get("properties", {}).get("method", {}).get("const") == method:
            return name
    return None
