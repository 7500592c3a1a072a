"""The official SDK as client and as server, with `mcpproxy serve` between them: nothing differs, and all is recorded.

What was sent is known from two accounts that are independent of the recorder: a transport below the SDK's client keeps
what it sends and receives, and the server's application logs what it receives and sends. Both must agree with each
other and with the capture, exchange by exchange.
"""

import dataclasses
import json
import os
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client import session as sdk_session
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CallToolResult,
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    LoggingMessageNotificationParams,
    ResourceUpdatedNotification,
    Root,
    TextContent,
    ToolListChangedNotification,
)

from captures.frame import Frame
from tests.analysis.traces import alarms, findings_of
from tests.harness import DEADLINE_S, Place, frames, members_of, wait_until
from tests.http_harness import Upstream, answering, serving
from tests.mcpproxy.cli.typed import mcpproxy
from tests.warm import Started

SSE, STATELESS = "2024-11-05", "2026-07-28"
ERAS = (SSE, "2025-03-26", "2025-06-18", "2025-11-25", STATELESS)

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Never used for TLS, and created once, because each takes 20 ms."""

Transcript = list[tuple[str, Any]]


# ---- what was sent, according to client and server


@dataclasses.dataclass
class Told:
    """One exchange as the client or the server logged it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    sent: bytes
    status: int = 0
    answer_headers: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    got: bytes = b""

    @property
    def number(self) -> str:
        """The client's number for the exchange."""
        return dict(self.headers)["user-agent"]

    def answers(self) -> list[tuple[str | None, bytes]]:
        """Returns the parts of the response that must be frames, each with its event id."""
        kind = dict(self.answer_headers).get("content-type", "")
        if kind.startswith("text/event-stream"):
            return list(events(self.got))
        return [(None, self.got)] if kind.startswith("application/json") and self.got else []


def events(stream: bytes) -> Iterator[tuple[str | None, bytes]]:
    """Yields the data of the events in a stream of the SDK, with the current id; `endpoint` is not a message."""
    last: str | None = None
    for block in stream.replace(b"\r\n", b"\n").split(b"\n\n")[:-1]:
        fields = [(name, value) for name, _, value in (line.partition(b": ") for line in block.split(b"\n"))]
        last = next((value.decode() for name, value in fields if name == b"id"), last)
        data = [value for name, value in fields if name.rstrip(b":") == b"data"]
        if data and (b"event", b"endpoint") not in fields:
            yield last, b"\n".join(data)


class Witness(httpx2.AsyncHTTPTransport):
    """Below the SDK's client: numbers each exchange in its User-Agent, which captures show unchanged, and keeps it."""

    def __init__(self, seen: list[Told] | None = None) -> None:
        super().__init__(verify=NO_TLS)
        self.seen = [] if seen is None else seen
        self.listens = anyio.Event()
        """Set when a GET has a response: from then on, the server can send messages on its own."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["user-agent"] = f"witness/{len(self.seen)}"
        headers = [(name.lower(), value) for name, value in request.headers.multi_items()]
        told = Told(request.method, request.url.raw_path.decode(), headers, request.content)
        self.seen.append(told)
        response = await super().handle_async_request(request)
        told.status = response.status_code
        told.answer_headers = [(name.lower(), value) for name, value in response.headers.multi_items()]
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = Overheard(response.stream, told)
        if request.method == "GET":
            self.listens.set()
        return response


class Overheard(httpx2.AsyncByteStream):
    """The body of a response, kept as it is read."""

    def __init__(self, body: httpx2.AsyncByteStream, told: Told) -> None:
        self._body = body
        self._told = told

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._body:
            self._told.got += piece
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


def account(path: Path) -> list[Told]:
    """Returns the exchanges that the server has logged so far."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = []
    for line in map(json.loads, lines):
        headers = [(name, value) for name, value in line["headers"]]
        answer_headers = [(name, value) for name, value in line["answer_headers"]]
        heard, said = line["heard"].encode("latin-1"), line["said"].encode("latin-1")
        found.append(Told(line["method"], line["target"], headers, heard, line["status"], answer_headers, said))
    return found


# ---- the peers


SERVE = "import sys; from tests.peers.sdk_http_server import serve; serve(sys.argv[1:])"


@contextmanager
def serve_sdk(place: Place, *options: str) -> Iterator[tuple[str, Path]]:
    """Yields the URL of the SDK's server, and the path of its account."""
    told = place.root / f"account-{len(list(place.root.glob('account-*')))}"
    told.touch()
    with Started([told, *options], os.environ, code=SERVE, loads="sdk") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield process.stdout.readline().decode().strip(), told
        finally:
            process.terminate()
        assert process.stderr.read() == b""


@contextmanager
def own_place(root: Path) -> Iterator[Place]:
    """A place for several tests."""
    made = Place(root)
    yield made
    left = made.clear()
    assert not left, left


async def elicited(context: object, params: object) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


async def sampled(context: object, params: object) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="sheep"), model="dreamer-1")


async def listed(context: object) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri="file:///notes")])  # type: ignore[arg-type]


class Talk:
    """One conversation of the SDK's client, with what it received step by step."""

    def __init__(self, url: str, era: str) -> None:
        self.url = url
        self.era = era
        self.witness = Witness()
        self.transcript: Transcript = []
        self._noticed: list[str] = []
        self._all_noticed = anyio.Event()

    def note(self, step: str, told: object) -> None:
        self.transcript.append((step, told))

    async def logged(self, params: LoggingMessageNotificationParams) -> None:
        self.note("log", params.data)

    async def noticed(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification | ResourceUpdatedNotification):
            self._noticed.append(message.method)
            if len(self._noticed) == 2:
                self._all_noticed.set()

    @asynccontextmanager
    async def client(self, **how: Any) -> AsyncIterator[Client]:
        def factory(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            return httpx2.AsyncClient(transport=self.witness, headers=headers, timeout=timeout, auth=auth)

        http = factory(timeout=httpx2.Timeout(DEADLINE_S), **how)
        if self.era == SSE:
            transport: Any = sse_client(self.url, httpx_client_factory=factory)
        else:
            transport = streamable_http_client(self.url, http_client=http)
        with anyio.fail_after(DEADLINE_S):
            async with (
                http,
                Client(
                    transport,
                    mode="auto" if self.era == STATELESS else "legacy",
                    cache=None,
                    elicitation_callback=elicited,
                    sampling_callback=sampled,
                    list_roots_callback=listed,
                    logging_callback=self.logged,
                    log_level="info" if self.era == STATELESS else None,
                    message_handler=self.noticed,
                ) as client,
            ):
                yield client

    async def call(self, client: Client, tool: str, **arguments: object) -> None:
        async def heard(progress: float, total: float | None, message: str | None) -> None:
            self.note("progress", (progress, total, message))

        self.note(tool, said(await client.call_tool(tool, arguments, progress_callback=heard)))

    async def everything(self) -> None:
        """Do everything that client and server can do with each other in this era."""
        async with self.client() as client:
            self.note("revision", client.protocol_version)
            self.note("tools", sorted(tool.name for tool in (await client.list_tools()).tools))
            await self.call(client, "count", steps=3)
            await self.call(client, "fail")
            await self.call(client, "tell", text="naïve 🥚")
            await self.call(client, "dream")
            await self.call(client, "roots")
            if self.era >= "2025-06-18":
                await self.call(client, "greet")
            self.note("note", str((await client.read_resource("note://groceries")).contents))
            await self.give_up(client)
            await self.listen(client)
            if self.era == "2025-11-25":
                await self.call(client, "part")
            await self.call(client, "count", steps=1)

    async def give_up(self, client: Client) -> None:
        """Cancel a call that is certainly under way, because it has sent progress."""
        with anyio.CancelScope() as scope:

            async def begun(progress: float, total: float | None, message: str | None) -> None:
                scope.cancel()

            await client.call_tool("wait", progress_callback=begun)
        self.note("given up", scope.cancelled_caught)

    async def listen(self, client: Client) -> None:
        """Wait for notifications of changes, in the way of the era."""
        if self.era == STATELESS:
            async with client.listen(tools_list_changed=True, resource_subscriptions=["note://groceries"]) as changes:
                await self.call(client, "change")
                told = [str(await anext(changes)), str(await anext(changes))]
        else:
            await self.witness.listens.wait()
            await self.call(client, "change")
            await self._all_noticed.wait()
            told = self._noticed
        self.note("changes", told)


def said(result: CallToolResult) -> tuple[bool | None, list[str]]:
    return result.is_error, [block.text for block in result.content if isinstance(block, TextContent)]


# ---- one conversation for each era, with and without the recorder


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """Keep clients from assuming another era after ten seconds, because a server on a busy machine may be slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sdk_session, "DISCOVER_TIMEOUT_SECONDS", DEADLINE_S)
        yield


@dataclasses.dataclass
class Run:
    """A conversation through the recorder, and the same conversation without it."""

    era: str
    direct: Talk
    talk: Talk
    server: dict[str, Told]
    capture: Path
    verified: int
    errors: str

    @property
    def client(self) -> dict[str, Told]:
        return {told.number: told for told in self.talk.witness.seen}

    def exchanges(self) -> dict[str, dict[str, Any]]:
        """Returns the last record of each exchange, by the client's number for it."""
        ends = [members for members in members_of(self.capture, "exchange") if members["stage"] == "end"]
        found = {dict(members["request"]["headers"])["user-agent"]: members for members in ends}
        assert len(found) == len(ends)
        return found

    def frames(self) -> dict[int | None, list[Frame]]:
        """Returns all frames, by exchange."""
        found: dict[int | None, list[Frame]] = {}
        for frame in frames(self.capture):
            found.setdefault(frame.exchange, []).append(frame)
        return found


def through(place: Place, era: str, converse: Callable[[Talk], Awaitable[None]], *options: str) -> Run:
    """Let a client talk to a server, first directly, then through the recorder."""
    with serve_sdk(place, *options) as (url, _):
        direct = Talk(url, era)
        anyio.run(converse, direct)
    with serve_sdk(place, *options) as (url, told):
        with serving(place, url) as recorder:
            talk = Talk(recorder.url, era)
            anyio.run(converse, talk)
            # A stream that the client has left is in the account once the server has noticed.
            wait_until(lambda: len(account(told)) >= len(talk.witness.seen), "the server to have ended all exchanges")
        verified = mcpproxy("verify", recorder.capture).returncode
        server = {one.number: one for one in account(told)}
    return Run(era, direct, talk, server, recorder.capture, verified, recorder.errors.decode())


SUITE = (SSE, "2025-11-25", STATELESS)
"""One revision of each transport and era; the others are in soak."""


@pytest.fixture(
    scope="module", params=[pytest.param(era, marks=[] if era in SUITE else [pytest.mark.soak]) for era in ERAS]
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    era: str = request.param
    with pytest.MonkeyPatch.context() as patch, own_place(tmp_path_factory.mktemp("serve")) as place:
        # The SDK's client offers the newest revision of the handshake, and has no option for another.
        patch.setattr(sdk_session, "LATEST_HANDSHAKE_VERSION", era)
        yield through(place, era, Talk.everything, *(["--sse"] if era == SSE else []))


@pytest.mark.costly("the SDK's server is loaded for it, once")
def test_the_client_cannot_tell_the_recorder_from_the_server(run: Run) -> None:
    assert run.talk.transcript == run.direct.transcript
    assert ("revision", run.era) in run.talk.transcript
    steps = Counter(step for step, _ in run.talk.transcript)
    assert steps["progress"] == 4 + 2 * (run.era == "2025-11-25")
    assert steps["log"] == 1
    assert ("given up", True) in run.talk.transcript
    assert ("dream", (False, ["dreamt by dreamer-1"])) in run.talk.transcript
    assert ("roots", (False, ["file:///notes"])) in run.talk.transcript


def test_server_and_client_agree_on_what_crossed(run: Run) -> None:
    assert run.client.keys() == run.server.keys()
    for number, client in run.client.items():
        server = run.server[number]
        assert (client.method, client.target, client.sent) == (server.method, server.target, server.sent)
        assert without(client.headers, "host") == without(server.headers, "host")
        assert client.status == server.status
        # The server's own HTTP code adds fields; those of the application pass unchanged.
        names = {name for name, _ in server.answer_headers}
        assert [field for field in client.answer_headers if field[0] in names] == server.answer_headers
        # The client has only the beginning of a stream that it left.
        assert server.got.startswith(client.got)


def without(headers: list[tuple[str, str]], name: str) -> list[tuple[str, str]]:
    return [field for field in headers if field[0] != name]


def test_every_message_is_recorded_once_in_its_exchange(run: Run) -> None:
    recorded, by_exchange = run.frames(), run.exchanges()
    assert by_exchange.keys() == run.client.keys()
    for number, client in run.client.items():
        found = recorded.pop(by_exchange[number]["exchange"], [])
        assert [frame.raw for frame in found if frame.dir == "c2s"] == ([client.sent] if client.sent else [])
        answers = [(frame.event_id, frame.raw) for frame in found if frame.dir == "s2c"]
        # Either both ends have the same messages of the stream, or the client left it: then all that it got is
        # recorded, and no more than the server sent.
        assert answers[: len(client.answers())] == client.answers()
        assert answers == run.server[number].answers()[: len(answers)]
        units = {frame.unit for frame in found if frame.dir == "s2c"}
        assert units <= ({"sse_event"} if "event-stream" in str(client.answer_headers) else {"http_body"})
    assert not recorded


def test_no_message_of_the_sdk_breaks_a_rule(run: Run) -> None:
    odd = [frame for found in run.frames().values() for frame in found if frame.verdict.problem or not frame.whole]
    assert [(frame.raw, frame.verdict) for frame in odd] == []


def test_no_rule_raises_a_false_alarm(run: Run) -> None:
    # In the handshake era, the SDK's server does not declare what a tool's context can send, so these are no false
    # alarms.
    names = ("log-messages", "list-changed", "resource-updates")
    due = set() if run.era == "2026-07-28" else {f"capability/undeclared-{name}" for name in names}
    found = alarms(run.capture)
    assert {rule for rule, _, _ in found} == due, found


def test_the_capture_is_complete_and_nothing_bypasses_the_recorder(run: Run) -> None:
    assert run.verified == 0
    assert [name for members in run.exchanges().values() for name in members.get("flags", [])] == []
    assert "bypass" not in run.errors
    session = next((v for told in run.client.values() for n, v in told.answer_headers if n == "mcp-session-id"), None)
    assert (session is not None) == (run.era not in (SSE, STATELESS))
    if session is not None:
        assert session.encode() not in run.capture.read_bytes()


def test_the_transport_of_the_era_is_seen(run: Run) -> None:
    ends = list(run.exchanges().values())
    methods = Counter(members["request"]["method"] for members in ends)
    statuses = Counter(members["response"]["status"] for members in ends)
    if run.era == SSE:
        (stream,) = [members for members in ends if members["request"]["method"] == "GET"]
        posts = [members for members in ends if members["request"]["method"] == "POST"]
        assert {members["uri_key"] for members in posts} == {stream["uri_key"]}
        assert statuses == {200: 1, 202: len(posts)}
    elif run.era == STATELESS:
        assert methods.keys() == {"POST"}
    else:
        assert methods["DELETE"] == 1
        assert methods["GET"] == 1 + (run.era == "2025-11-25")
        assert statuses[202] > 0


def test_the_call_that_was_given_up_ended_in_the_way_of_the_era(run: Run) -> None:
    by_number = {members["exchange"]: members for members in run.exchanges().values()}
    calls = [(frame, json.loads(frame.raw)) for found in run.frames().values() for frame in found if frame.raw]
    ((frame, call),) = [one for one in calls if one[1].get("params", {}).get("name") == "wait"]
    said_so = [told for _, told in calls if told.get("method") == "notifications/cancelled"]
    if run.era == STATELESS:
        assert frame.exchange is not None
        assert by_number[frame.exchange]["ended_by"] == "client"
        assert said_so == []
    else:
        assert [told["params"]["requestId"] for told in said_so] == [call["id"]]


def test_a_resumed_stream_is_known_by_its_last_event(run: Run) -> None:
    resumed = [members for members in members_of(run.capture, "stream") if "last_event_id" in members]
    if run.era != "2025-11-25":
        assert resumed == []
        return
    exchange, last = resumed[0]["exchange"], resumed[0]["last_event_id"]
    # No other exchange comes between a stream that the server closes and the one that resumes it.
    before, after = run.frames()[exchange - 1], run.frames()[exchange]
    answers = [frame for frame in before if frame.dir == "s2c"]
    assert last == answers[-1].event_id
    words = (b'"before"', b'"after"', b"resumed")
    assert [word for frame in [*answers, *after] for word in words if word in frame.raw] == list(words)
    assert any(words[-1] in frame.raw for frame in after)


# ---- specific to one era, or to none


async def no_talk(talk: Talk) -> None:
    """Do only the handshake and one call."""
    async with talk.client() as client:
        await talk.call(client, "count", steps=2)


@pytest.mark.parametrize("era", ["2025-11-25", STATELESS])
def test_a_server_without_event_streams(place: Place, era: str) -> None:
    run = through(place, era, no_talk, "--json")
    assert run.talk.transcript == run.direct.transcript == [("count", (False, ["counted to 2"]))]
    test_server_and_client_agree_on_what_crossed(run)
    test_every_message_is_recorded_once_in_its_exchange(run)
    assert {frame.unit for found in run.frames().values() for frame in found} == {"http_body"}
    assert run.verified == 0


class ModernOverSse(Talk):
    """The modern era over the older transport: a probe goes to the address that the stream announces."""

    @asynccontextmanager
    async def client(self, **_how: Any) -> AsyncIterator[Client]:
        with anyio.fail_after(DEADLINE_S):
            async with Client(sse_client(self.url), mode="auto", cache=None) as client:
                yield client


def test_rules_of_the_newer_transport_leave_the_older_one_alone(place: Place) -> None:
    async def converse(talk: Talk) -> None:
        async with talk.client() as client:
            talk.note("revision", client.protocol_version)
            await talk.call(client, "count", steps=3)
            async with client.listen(tools_list_changed=True, resource_subscriptions=["note://groceries"]) as changes:
                await talk.call(client, "change")
                talk.note("changes", [str(await anext(changes)), str(await anext(changes))])
            await talk.give_up(client)

    with serve_sdk(place, "--sse") as (url, _), serving(place, url) as recorder:
        talk = ModernOverSse(recorder.url, STATELESS)
        anyio.run(converse, talk)
    assert ("revision", STATELESS) in talk.transcript
    assert ("given up", True) in talk.transcript
    assert alarms(recorder.capture) == []
    assert {one.session for one in findings_of(recorder.capture)} == {1}


BATCH = [
    {"jsonrpc": "2.0", "id": 1, "method": "ping"},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": "two", "method": "tools/list"},
]


@pytest.mark.parametrize(
    ("accept", "unit", "batches"), [("application/json", "http_body", 1), ("text/event-stream", "sse_event", 2)]
)
def test_batches_of_2025_03_26(place: Place, accept: str, unit: str, batches: int) -> None:
    async def send(talk: Talk) -> None:
        async with httpx2.AsyncClient(transport=talk.witness) as client:
            for batch in (BATCH, BATCH[1:2]):
                answer = await client.post(talk.url, json=batch, headers={"accept": accept})
                talk.note("batch", (answer.status_code, answer.text))

    run = through(place, "2025-03-26", send, "--batches")
    assert run.talk.transcript == run.direct.transcript
    assert [status for _, (status, _) in run.talk.transcript] == [200, 202]
    test_server_and_client_agree_on_what_crossed(run)
    test_every_message_is_recorded_once_in_its_exchange(run)
    found = [frame for found in run.frames().values() for frame in found]
    assert Counter((frame.dir, frame.unit, frame.verdict.kind) for frame in found) == {
        ("c2s", "http_body", "batch"): 2,
        ("s2c", unit, "batch"): batches,
    }


@pytest.mark.parametrize("clients", [12, pytest.param(64, marks=pytest.mark.soak)])
def test_equal_ids_of_many_clients_at_once_are_told_apart_by_exchange(place: Place, clients: int) -> None:
    async def meet(talk: Talk) -> None:
        async def one(who: int) -> None:
            own = Talk(talk.url, STATELESS)
            own.witness = Witness(talk.witness.seen)
            async with own.client() as client:
                await own.call(client, "meet", who=f"client {who}", parties=clients)
            talk.transcript += own.transcript

        async with anyio.create_task_group() as group:
            for who in range(clients):
                group.start_soon(one, who)

    run = through(place, STATELESS, meet)
    expected = [("meet", (False, [f"met client {who}"])) for who in range(clients)]
    assert sorted(run.talk.transcript) == sorted(run.direct.transcript) == sorted(expected)
    test_every_message_is_recorded_once_in_its_exchange(run)
    pairs, ids = set(), set()
    for found in run.frames().values():
        (asked, *_) = [json.loads(frame.raw) for frame in found if frame.dir == "c2s"]
        answer = json.loads([frame for frame in found if frame.dir == "s2c"][-1].raw)
        if asked["method"] == "tools/call":
            ids.add(asked["id"])
            pairs.add((asked["params"]["arguments"]["who"], answer["id"], answer["result"]["content"][0]["text"]))
    (ident,) = ids
    assert pairs == {(f"client {who}", ident, f"met client {who}") for who in range(clients)}
    assert len({members["conn"] for members in run.exchanges().values()}) >= clients
    assert run.verified == 0


# ---- addresses that lead a client past the recorder

TOKEN = "sk-live-4711-do-not-keep"
METADATA = "/.well-known/oauth-protected-resource/mcp"


def shape(answer: httpx2.Response, url: str) -> tuple[object, ...]:
    """Returns the parts of a response that do not depend on the time, with the server's address as HERE."""
    here = url.removesuffix("/mcp")
    headers = [(name, value.replace(here, "HERE")) for name, value in answer.headers.items() if name != "date"]
    return answer.status_code, answer.reason_phrase, headers, answer.text.replace(here, "HERE")


def test_a_challenge_and_the_metadata_behind_it_pass_unchanged(place: Place) -> None:
    """An OAuth client gets the same as without the recorder: it finds that the recorder is not the resource."""

    def ask(url: str) -> list[httpx2.Response]:
        base = url.removesuffix("/mcp")
        with httpx2.Client() as client:
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            return [client.post(url, json=ping), client.get(base + METADATA), client.get(base + METADATA)]

    with serve_sdk(place, "--bearer", TOKEN) as (url, _):
        direct = [shape(answer, url) for answer in ask(url)]
        with serving(place, url) as recorder:
            through_us = [shape(answer, url) for answer in ask(recorder.url)]
    assert through_us == direct
    challenged, found, again = recorder.exchanges()
    assert challenged["response"]["status"] == 401
    challenge = dict(challenged["response"]["headers"])["www-authenticate"]
    assert f'resource_metadata="{url.removesuffix("/mcp")}{METADATA}"' in challenge
    assert found["flags"] == again["flags"] == ["bypass/resource"]
    assert json.loads(found["metadata"])["resource"] == url
    assert recorder.errors.count(b"bypass/resource") == 1


@pytest.mark.parametrize("era", ["2025-11-25", STATELESS])
def test_a_bearer_token_reaches_the_server_and_no_capture(place: Place, era: str) -> None:
    async def list_tools(talk: Talk) -> None:
        async with talk.client(headers={"authorization": f"Bearer {TOKEN}"}) as client:
            talk.note("tools", (await client.list_tools()).tools)

    run = through(place, era, list_tools, "--bearer", TOKEN)
    assert run.talk.transcript == run.direct.transcript == [("tools", [])]
    assert all(("authorization", f"Bearer {TOKEN}") in told.headers for told in run.server.values())
    values = [dict(members["request"]["headers"])["authorization"] for members in run.exchanges().values()]
    assert len(set(values)) == 1
    assert values[0].startswith("Bearer hmac:")
    assert TOKEN.encode() not in run.capture.read_bytes()
    assert TOKEN not in run.errors


def test_addresses_that_name_the_recorder_do_not_bypass_it(place: Place) -> None:
    """A server that was given its public address sends the recorder's address, not its own."""
    ours: list[str] = []

    def answer(request: bytes) -> bytes:
        body = json.dumps({"resource": f"http://{ours[0]}/mcp", "authorization_servers": []}).encode()
        return (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Location: http://%s/mcp\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (ours[0].upper().encode(), len(body), body)
        )

    with Upstream(answering(answer)) as upstream, serving(place, upstream) as recorder:
        ours.append(recorder.url.removeprefix("http://").removesuffix("/mcp"))
        assert httpx2.get(f"http://{ours[0]}{METADATA}").status_code == 200
    (exchange,) = recorder.exchanges()
    assert "metadata" in exchange
    assert "flags" not in exchange
    assert b"bypass" not in recorder.errors


def test_a_content_location_outside_of_redirects_stays_and_is_told(place: Place) -> None:
    here: list[bytes] = []

    def answer(request: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Location: http://%s/mcp\r\nContent-Length: 0\r\n\r\n" % here[0]

    with Upstream(answering(answer)) as upstream, serving(place, upstream) as recorder:
        here.append(upstream.authority)
        assert httpx2.post(recorder.url).headers["content-location"] == upstream.url
    (exchange,) = recorder.exchanges()
    assert exchange["flags"] == ["bypass/content-location"]
    assert "rewritten" not in exchange
    assert recorder.errors.count(b"bypass/content-location") == 1


def test_where_a_redirect_leads(place: Place) -> None:
    """The flags describe what was forwarded; both addresses are in the capture."""
    located = [
        ("//elsewhere.example/mcp", None, ["bypass/location"], ""),
        ("http://{theirs}.example/mcp", None, ["bypass/location"], ""),
        ("http://{ours}.example/mcp", None, ["bypass/location"], ""),
        ("http://user@{theirs}/mcp", None, ["bypass/location"], ""),
        ("http://{theirs}//elsewhere.example/mcp", None, ["bypass/location"], ""),
        ("https://{theirs}/mcp/?token=zoq4711", None, ["bypass/location"], "start with https://{theirs}/… instead of"),
        ("http://{theirs}/mcp/?token=zoq4711", "/mcp/?token=hmac:", None, ""),
        ("http://{theirs}/tok-zoq4711/mcp", "/hmac:", None, ""),
        ("http://{theirs}", "/", None, ""),
        ("http://{ours}/mcp/", None, None, ""),
        ("/mcp/?next=http://elsewhere.example/", None, None, ""),
        ("http://[broken", None, None, ""),
    ]
    names: dict[str, str] = {}

    def answer(request: bytes) -> bytes:
        number = int(request.split(b"/mcp/")[1].split(b" ")[0])
        there = located[number][0].format(**names).encode()
        return b"HTTP/1.1 307 Temporary Redirect\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % there

    with Upstream(answering(answer)) as upstream, serving(place, upstream) as recorder:
        names |= {"theirs": upstream.authority.decode(), "ours": recorder.url.split("/")[2]}
        for number in range(len(located)):
            assert httpx2.get(f"{recorder.url}/{number}").status_code == 307
    for (location, forwarded, flags, _), exchange in zip(located, recorder.exchanges(), strict=True):
        assert exchange.get("flags") == flags, location
        assert exchange.get("rewritten", {}).get("location", "").startswith(forwarded or ""), location
        assert ("rewritten" in exchange) == (forwarded is not None), location
    told = recorder.errors.decode()
    assert told.count("bypass/") == 2
    assert all(hint.format(**names) in told for *_, hint in located)
    assert "zoq4711" not in told
    assert b"zoq4711" not in recorder.capture.read_bytes()


@pytest.mark.parametrize("endpoint", ["http://[broken/", "//[", "http://other.example:port/", "\N{NO-BREAK SPACE}"])
def test_an_endpoint_that_is_no_address_ends_no_recording(place: Place, endpoint: str) -> None:
    told = b'event: endpoint\ndata: %s\n\ndata: {"jsonrpc":"2.0","method":"after"}\n\n' % endpoint.encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s" % (len(told), told)
    with Upstream(answering(answer)) as upstream, serving(place, upstream) as recorder:
        assert httpx2.get(recorder.url).content == told
    assert [frame.verdict.method for frame in frames(recorder.capture)] == ["after"]
    assert b"fault" not in recorder.errors
