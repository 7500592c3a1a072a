"""Clients: each sends the requests of a conversation to a server that gives the recorded responses."""

import asyncio
import contextlib
import importlib
import importlib.metadata
import json
import logging
import os
import shlex
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from mcpproxy.importers.case import Case
from tests.bench.neighbours import replay
from tests.bench.neighbours.replay import REFUSAL, Replay, replay_message
from tests.bench.neighbours.shown import REVISIONS, Found, Message, Row, Unfit

PATIENCE_S: Final = 2.0
"""How long a client may wait for a response that does not come."""
RUN_S: Final = 15.0
"""How long the Inspector may take; after that, it counts as silent."""
TOOL_ERROR: Final = 5
"""The Inspector's exit code if a tool reports that it has failed."""
ASKED: Final = frozenset(
    {"tools/list", "tools/call", "prompts/list", "prompts/get"}
    | {"resources/list", "resources/templates/list", "resources/read"}
)
"""The requests that the Inspector can be made to send."""


def replayed(case: Case, messages: list[Message]) -> Replay:
    """A server that replays a stdio conversation; raises `Unfit` if this does not begin with an answered request."""
    if case.transport != "stdio":
        raise Unfit("over HTTP")
    server = Replay([replay_message(frame.dir, frame.raw) for _, frame in messages])
    if not case.observed_start or not server.asked or server.asked[0].place != 0:
        raise Unfit("begins with no request that is answered")
    return server


def client_row() -> Row:
    """The client of the official Python SDK; what it raises, or logs as a warning or worse, is a report."""
    mcp = importlib.import_module("mcp")
    wire = _Wire()
    heard = _Heard()
    logging.getLogger().addHandler(heard)
    warnings.simplefilter("ignore", mcp.MCPDeprecationWarning)

    async def drive(server: Replay, found: Found) -> None:
        at = server.asked[0].answered

        def note(error: BaseException) -> None:
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            refused = "error" in server.body(at) and (
                isinstance(error, mcp.MCPError) or _words(server.body(at)["error"]) in str(error)
            )
            if not refused and REFUSAL not in str(error):
                found[at] = str(error)

        try:
            async with mcp.Client(wire.to(server), mode=_mode(server), **_answers(mcp)) as client:
                for one in server.asked:
                    at = one.answered
                    try:
                        if not server.is_spent(one) and not _is_task(one.request, server.body(at)):
                            await _ask(client, one.request)
                    except Exception as error:  # noqa: BLE001 - any exception is a report
                        note(error)
        except Exception as error:  # noqa: BLE001
            note(error)

    def find(case: Case, messages: list[Message]) -> Found:
        found: Found = {}
        heard.lines.clear()
        asyncio.run(drive(replayed(case, messages), found))
        if heard.lines:
            found[-1] = heard.lines[0]
        return {messages[place].at if place >= 0 else -1: text for place, text in found.items()}

    return Row("mcp, its client", importlib.metadata.version("mcp"), find)


def _words(error: object) -> str:
    """The message of an error or, if it has none, a text that no exception contains."""
    return (isinstance(error, dict) and isinstance(error.get("message"), str) and error["message"]) or "\0"


def _is_task(request: dict[str, Any], answer: dict[str, Any]) -> bool:
    """Whether a request asks for a task, or its response is one: this client does not support tasks."""
    result = answer.get("result")
    return "task" in _params(request) or (isinstance(result, dict) and result.get("resultType") == "task")


class _Heard(logging.Handler):
    """What the SDK logs, except that a tool was never listed, which is due to the replaying server."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "not listed by server" not in record.getMessage():
            self.lines.append(record.getMessage())


class _Wire:
    """The streams between the client and a server; a line is read as the SDK's transport of stdio reads it."""

    def __init__(self) -> None:
        self._anyio = importlib.import_module("anyio")
        self._message = importlib.import_module("mcp.shared.message").SessionMessage
        self._reader = importlib.import_module("mcp_types.jsonrpc").jsonrpc_message_adapter

    @contextlib.asynccontextmanager
    async def to(self, server: Replay) -> AsyncIterator[Any]:
        to_client, read = self._anyio.create_memory_object_stream(1000)
        write, from_client = self._anyio.create_memory_object_stream(1000)

        async def answer() -> None:
            async for sent in from_client:
                request = json.loads(sent.message.model_dump_json(by_alias=True, exclude_unset=True))
                for line in server.answers(request) if "method" in request and "id" in request else ():
                    await to_client.send(self._read(line))

        async with self._anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            yield read, write
            tasks.cancel_scope.cancel()

    def _read(self, line: bytes) -> object:
        try:
            return self._message(self._reader.validate_json(line))
        except ValueError as error:
            return error


def _mode(server: Replay) -> str:
    """The mode in which the client begins as the client of the conversation did."""
    first = server.asked[0].request["method"]
    return {"server/discover": "auto", "initialize": "legacy", "ping": "legacy"}.get(first, REVISIONS[-1])


def _answers(mcp: Any) -> dict[str, Any]:
    """Callbacks that answer the server's requests, so that these do not fail, and log lines that are not messages."""
    types = importlib.import_module("mcp_types")

    async def elicited(*_: object) -> object:
        return types.ElicitResult(action="decline")

    async def sampled(*_: object) -> object:
        words = types.TextContent(type="text", text="x")
        return mcp.CreateMessageResult(role="assistant", content=words, model="x")

    async def rooted(*_: object) -> object:
        return types.ListRootsResult(roots=[])

    async def heard(what: object) -> None:
        if isinstance(what, Exception):
            logging.getLogger(__name__).warning("%s", what)

    return {
        "elicitation_callback": elicited,
        "sampling_callback": sampled,
        "list_roots_callback": rooted,
        "message_handler": heard,
        "read_timeout_seconds": PATIENCE_S,
    }


async def _ask(client: Any, request: dict[str, Any]) -> None:
    """Send a request of the conversation again, if the client has a method for it."""
    params = _params(request)
    cursor, name, arguments = params.get("cursor"), params.get("name"), params.get("arguments")
    match request["method"]:
        case "tools/list":
            await client.list_tools(cursor=cursor)
        case "tools/call":
            await client.call_tool(name, arguments)
        case "resources/list":
            await client.list_resources(cursor=cursor)
        case "resources/templates/list":
            await client.list_resource_templates(cursor=cursor)
        case "resources/read":
            await client.read_resource(params.get("uri"))
        case "prompts/list":
            await client.list_prompts(cursor=cursor)
        case "prompts/get":
            await client.get_prompt(name, arguments)
        case "ping":
            await client.send_ping()


def inspector_row(command: str, every: int, place: Path) -> Row:
    """The Inspector in its CLI mode, one run for each request; it starts the server itself."""
    words = shlex.split(command)
    environment = {**os.environ, "HOME": str(place)}
    said_version = subprocess.run([*words, "--version"], capture_output=True, text=True, env=environment, check=True)

    def find(case: Case, messages: list[Message]) -> Found:
        server = replayed(case, messages)
        course = place / "course.ndjson"
        lines = [json.dumps({"dir": frame.dir, "raw": frame.raw.decode("utf-8", "replace")}) for _, frame in messages]
        course.write_text("\n".join(lines))
        mode = _mode(server)
        if mode not in {"legacy", "auto"}:
            raise Unfit("begins with no handshake")
        era = "legacy" if mode == "legacy" else "modern"
        asked = [one for one in server.asked if one.request["method"] in ASKED]
        if not asked:
            raise Unfit("asks nothing that it could ask")
        found: Found = {}
        for one in asked:
            run = [*words, "--protocol-era", era, "--connect-timeout", "3000", *_named(one.request)]
            run += ["--", sys.executable, replay.__file__, str(course)]
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = subprocess.run(run, capture_output=True, text=True, env=environment, timeout=RUN_S, check=False)
                if done.returncode and not ("error" in server.body(one.answered) or done.returncode == TOOL_ERROR):
                    found[messages[one.answered].at] = done.stderr
        return found

    return Row("inspector --cli", said_version.stdout.strip(), find, every)


def _params(request: dict[str, Any]) -> dict[str, Any]:
    given = request.get("params")
    return given if isinstance(given, dict) else {}


def _named(request: dict[str, Any]) -> list[str]:
    params = _params(request)
    named = ["--method", request["method"]]
    if request["method"] == "tools/call":
        named += ["--tool-name", str(params.get("name")), "--tool-args-json", json.dumps(params.get("arguments") or {})]
    elif request["method"] == "prompts/get":
        named += ["--prompt-name", str(params.get("name"))]
        named += [
            word for pair in (params.get("arguments") or {}).items() for word in ("--prompt-args", "=".join(pair))
        ]
    elif request["method"] == "resources/read":
        named += ["--uri", str(params.get("uri"))]
    return named
