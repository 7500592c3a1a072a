"""The official SDK as client and as server, with `mcpproxy run` between them: it works, and all of it is understood."""

import json
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import (
    CallToolResult,
    CreateMessageResult,
    ElicitResult,
    Implementation,
    TextContent,
    TextResourceContents,
)

from analysis.conversation.call import Call, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.session import Peer
from captures.frame import Frame
from captures.integrity import inspect
from captures.reader import Capture, read_frames
from captures.record import Record
from tests.analysis.traces import alarms
from tests.mcpproxy.cli.typed import mcpproxy
from tests.npm import installed

SERVER = [sys.executable, str(Path(__file__).parents[1] / "peers/sdk_server.py")]
DEADLINE_S = 240

MODES = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}
"""How the client opens the session → the revision that must result."""


# ---- the conversation


async def elicited(context: object, params: object) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


async def sampled(context: object, params: object) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="sheep"), model="dreamer-1")


@asynccontextmanager
async def recorded(command: list[str], capture: Path, mode: str, **more: Any) -> AsyncIterator[Client]:
    """Run the SDK's client with a server through the recorder."""
    run = ["-m", "mcpproxy", "run", "--capture", str(capture), "--", *command]
    server = StdioServerParameters(command=sys.executable, args=run, env={"HOME": str(capture.parent)})
    info = Implementation(name="sdk-reader", version="1.2.3")
    with (
        (capture.parent / "stderr").open("w") as stderr,
        anyio.fail_after(DEADLINE_S),
        pytest.MonkeyPatch.context() as patched,
    ):
        # On a busy machine, a server may need more than the two seconds after which this client ends it by a signal,
        # and more than the ten seconds after which the client tries again and assumes the handshake era.
        patched.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", DEADLINE_S)
        patched.setattr("mcp.client.stdio._WRITER_FLUSH_TIMEOUT", DEADLINE_S)
        patched.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", DEADLINE_S)
        async with Client(
            stdio_client(server, stderr),
            mode=mode,
            client_info=info,
            elicitation_callback=elicited,
            **more,
            sampling_callback=sampled,
        ) as client:
            yield client


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def use_everything(client: Client) -> None:
    """Use everything that the bundled SDK server offers, and check that it arrives as it was meant."""
    told: list[float] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    assert {tool.name for tool in (await client.list_tools()).tools} == {"count", "wait", "fail", "greet", "dream"}
    assert text_of(await client.call_tool("count", {"steps": 3}, progress_callback=heard)) == "counted to 3"
    assert told == [1, 2, 3]
    assert (await client.call_tool("fail")).is_error
    assert [resource.uri for resource in (await client.list_resources()).resources] == ["note://groceries"]
    (note,) = (await client.read_resource("note://groceries")).contents
    assert isinstance(note, TextResourceContents)
    assert note.text == "milk, naïve bread, 🥚"
    assert "Sum up zoo" in str((await client.get_prompt("summarise", {"note": "zoo"})).messages)
    assert text_of(await client.call_tool("greet")) == "hello Ada"
    assert text_of(await client.call_tool("dream")) == "dreamt by dreamer-1"
    await give_up_waiting(client)
    assert text_of(await client.call_tool("count", {"steps": 1})) == "counted to 1"


async def give_up_waiting(client: Client) -> None:
    """Cancel a call that is certainly under way, because it has sent progress."""
    with anyio.CancelScope() as scope:

        async def begun(progress: float, total: float | None, message: str | None) -> None:
            scope.cancel()

        await client.call_tool("wait", progress_callback=begun)
    assert scope.cancelled_caught


# ---- what the capture reports about it


class Understood(NamedTuple):
    """What was read from a capture."""

    session: Fold
    frames: list[Frame]
    records: list[Record]
    calls: list[Call]
    left: tuple[Call, ...]
    """The calls without a response."""


def understand(path: Path) -> Understood:
    session = Fold()
    frames, records, calls = [], [], []
    for item in read_frames(Capture(path)):
        seen = session.feed(item)
        calls += [one.answered for one in seen if one.answered is not None]
        frames += [item] if isinstance(item, Frame) else []
        records += [item] if isinstance(item, Record) else []
    return Understood(session, frames, records, calls, session.open_calls())


def outcomes(calls: list[Call]) -> Counter[tuple[str, Outcome]]:
    return Counter((call.request.method, call.outcome) for call in calls)


@pytest.fixture(scope="module", params=["legacy", "auto", pytest.param("2026-07-28", marks=pytest.mark.soak)])
def talked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """One recorded conversation for each mode of opening a session."""
    capture = tmp_path_factory.mktemp("sdk") / "talked.mcpcap"

    async def talk() -> None:
        async with recorded(SERVER, capture, request.param) as client:
            await use_everything(client)

    anyio.run(talk)
    return request.param, capture


@pytest.mark.costly("the SDK's two ends start for it")
def test_session_is_recorded_whole(talked: tuple[str, Path]) -> None:
    found = inspect(Capture(talked[1]))
    assert found.state == "complete"
    assert found.close is not None
    assert (found.close["ending"], found.close["status"]) == ("server", 0)


def test_no_frame_of_the_sdk_is_found_fault_with(talked: tuple[str, Path]) -> None:
    frames = understand(talked[1]).frames
    assert [(frame.raw, frame.verdict) for frame in frames if frame.verdict.problem or not frame.whole] == []
    assert {frame.verdict.kind for frame in frames} <= {"request", "response", "error", "notification"}


def test_no_rule_raises_a_false_alarm(talked: tuple[str, Path]) -> None:
    assert alarms(talked[1]) == []


def test_peers_and_revision_are_named(talked: tuple[str, Path]) -> None:
    mode, capture = talked
    session = understand(capture).session
    assert (session.client, session.server) == (Peer("sdk-reader", "1.2.3"), Peer("sdk-notebook", "4.5.6"))
    assert session.revisions == (MODES[mode],)
    assert session.is_complete


def test_every_request_is_paired_with_its_answer(talked: tuple[str, Path]) -> None:
    mode, capture = talked
    understood = understand(capture)
    found = outcomes(understood.calls)
    asked_again = {} if mode == "legacy" else {("tools/call", Outcome.INPUT_REQUIRED): 2}
    asked_back = {("elicitation/create", Outcome.RESULT): 1, ("sampling/createMessage", Outcome.RESULT): 1}
    opening = {"legacy": {("initialize", Outcome.RESULT): 1}, "auto": {("server/discover", Outcome.RESULT): 1}}
    assert found == {
        ("tools/list", Outcome.RESULT): 1,
        ("tools/call", Outcome.RESULT): 4,
        ("tools/call", Outcome.TOOL_ERROR): 1,
        ("resources/list", Outcome.RESULT): 1,
        ("resources/read", Outcome.RESULT): 1,
        ("prompts/get", Outcome.RESULT): 1,
        **opening.get(mode, {}),
        **(asked_back if mode == "legacy" else asked_again),
    }


def test_the_call_that_was_given_up_is_told_as_cancelled(talked: tuple[str, Path]) -> None:
    left = understand(talked[1]).left
    assert outcomes(list(left)) == {("tools/call", Outcome.CANCELLED): 1}
    assert isinstance(left[0].request.params, dict)
    assert left[0].request.params["name"] == "wait"


def test_stalls_end_before_the_peer_reacts(talked: tuple[str, Path]) -> None:
    """The peers take turns: what comes back after a frame was caused by it, so its receiver had the frame by then."""
    understood = understand(talked[1])
    frames = {frame.seq: frame for frame in understood.frames}
    for stall in (record.members for record in understood.records if record.rec == "stall"):
        of = frames[stall["of"]]
        reactions = [frame for frame in understood.frames if frame.seq > of.seq and frame.dir != of.dir]
        assert not reactions or of.t_ns + stall["waited_ns"] <= reactions[0].t_ns, of.raw


def test_show_prints_it_without_a_fault(talked: tuple[str, Path]) -> None:
    done = mcpproxy("show", talked[1])
    assert done.returncode == 0
    assert done.stderr == b""
    heading = done.stdout.decode().splitlines()[0]
    assert f"{MODES[talked[0]]}  sdk-reader 1.2.3 → sdk-notebook 4.5.6" in heading
    assert "✗" not in done.stdout.decode()
    assert "unanswered" not in done.stdout.decode()


# ---- a server from other authors, in another language

EVERYTHING = "@modelcontextprotocol/server-everything"
VERSION = "2026.8.31"


@pytest.fixture(scope="module")
def everything_server(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the reference server, installed for this test."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    package = installed(EVERYTHING, VERSION, tmp_path_factory.mktemp("npm"))
    entry = json.loads((package / "package.json").read_text())["bin"]["mcp-server-everything"]
    return [node, str(package / entry), "stdio"]


@pytest.mark.timeout(3 * DEADLINE_S)
def test_the_reference_server_of_another_sdk_is_understood(everything_server: list[str], tmp_path: Path) -> None:
    capture = tmp_path / "everything.mcpcap"
    told: list[float] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async def talk() -> None:
        async with recorded(everything_server, capture, "auto") as client:
            assert "echo" in {tool.name for tool in (await client.list_tools()).tools}
            assert text_of(await client.call_tool("echo", {"message": "across"})) == "Echo: across"
            long = {"duration": 0.2, "steps": 2}
            await client.call_tool("trigger-long-running-operation", long, progress_callback=heard)
            await client.list_resources()
            await client.list_prompts()

    anyio.run(talk)
    understood = understand(capture)
    assert inspect(Capture(capture)).state == "complete"
    assert [frame.raw for frame in understood.frames if frame.verdict.problem] == []
    assert understood.session.client == Peer("sdk-reader", "1.2.3")
    assert understood.session.server is not None
    assert understood.session.server.name == "mcp-servers/everything"
    assert understood.left == ()
    assert told == [1, 2]
    assert outcomes(understood.calls)["tools/call", Outcome.RESULT] == 2
    assert alarms(capture) == []
