"""Whatever a recording holds, and however a server reads: it gets no call of a tool that is not read-only."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from analysis.playback.single_line import as_single_line
from mcpproxy.replay.arrivals import Arrival
from mcpproxy.replay.conversation import Conversation, Outgoing
from mcpproxy.replay.options import ReplayOptions
from mcpproxy.replay.plan import plan
from mcpproxy.replay.replay import replay
from mcpproxy.replay.safety import ToolHints, refusal, unsafe_calls
from tests.analysis.store.capture_writer import CaptureWriter
from tests.examples import examples
from tests.mcpproxy.replay.replays import read_whole

Pairs = list[tuple[str, Any]]
NAMES = ("read_all", "write_it", "Read_all", "read_all ")


def last_of(pairs: Pairs) -> dict[str, Any]:
    """Reads an object as most parsers do."""
    return dict(pairs)


def first_of(pairs: Pairs) -> dict[str, Any]:
    """Reads an object as some parsers do."""
    return dict(reversed(pairs))


def any_case(pairs: Pairs) -> dict[str, Any]:
    """Reads an object as Go does; `readOnlyHint` is then looked up in lower case, too."""
    return {name.lower(): value for name, value in pairs}


READERS: tuple[Callable[[Pairs], dict[str, Any]], ...] = (last_of, first_of, any_case)
ENDS = (b"\n", b"\r\n|\r|\n")


def messages_of(stream: bytes) -> Iterator[dict[str, Any]]:
    """Yields the messages in a stream, as each reader sees them."""
    for end in ENDS:
        for line in re.split(end, stream):
            for reader in READERS:
                try:
                    value = json.loads(line, object_pairs_hook=reader)
                except ValueError:
                    continue
                yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict))


def called(stream: bytes) -> set[Any]:
    """Returns the tools that a server calls, whichever reader it is."""
    found = set()
    for message in messages_of(stream):
        params = message.get("params")
        if message.get("method") == "tools/call" and isinstance(params, dict):
            found.add(str(params.get("name")))
    return found


def read_only(answers: list[bytes]) -> set[str]:
    """Returns the tools that are read-only for all readers of these answers."""
    yes: set[str] = set()
    no: set[str] = set()
    for answer in answers:
        for message in messages_of(answer):
            result = message.get("result")
            for tool in result.get("tools", ()) if isinstance(result, dict) else ():
                hints = tool.get("annotations", {})
                hint = hints.get("readOnlyHint", hints.get("readonlyhint"))
                (yes if hint is True and not hints.get("destructiveHint") else no).add(tool.get("name"))
    return yes - no


class Server:
    """A server in this process, which answers each request; what it chooses is the name of another tool."""

    is_ready = True

    def __init__(self, chosen: str) -> None:
        self.stream, self._chosen, self._arrivals = b"", chosen, list[Arrival]()

    def send(self, outgoing: Outgoing) -> str | None:
        """Take a line; returns why it is none."""
        line = as_single_line(outgoing.raw)
        if line is None:
            return "it is no line"
        self.stream += line + b"\n"
        for call in outgoing.calls:
            message = json.loads(line) if len(outgoing.calls) == 1 else {}
            raw = b""
            if isinstance(message, dict) and "id" in message:
                result = {"protocolVersion": "2025-06-18", "nextCursor": self._chosen, "capabilities": {}}
                raw = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            self._arrivals.append(Arrival(raw, (call,), (call,)))
        return None

    def next_arrival(self, timeout_s: float) -> Arrival | None:
        """Return the next answer."""
        return self._arrivals.pop(0) if self._arrivals else None


def mostly(usual: str, *others: str) -> st.SearchStrategy[str]:
    """Draws the usual text three times out of four."""
    return st.sampled_from([*([usual] * 3 * len(others)), *others])


names = mostly(*NAMES)
hints = mostly(
    '"readOnlyHint":true',
    '"readOnlyHint":false',
    '"readOnlyHint":false,"readOnlyHint":true',
    '"readOnlyHint":true,"readOnlyHint":false',
    '"readOnlyHint":true,"ReadOnlyHint":false',
    '"readOnlyHint":true,"destructiveHint":true',
    "",
)


@st.composite
def definitions(draw: st.DrawFn) -> str:
    """A definition of a tool."""
    annotations = draw(mostly('"annotations":{0}', '"annotations":{1},"annotations":{0}', '"Annotations":{0}'))
    members = annotations.format(f"{{{draw(hints)}}}", f"{{{draw(hints)}}}")
    return f'{{"name":"{draw(names)}",{members}}}'


@st.composite
def lists(draw: st.DrawFn) -> bytes:
    """An answer with a list of tools; the id may be that of no request."""
    form = draw(mostly('"tools":[{0}]', '"tools":[{1}],"tools":[{0}]', '"tools":[{0},{1}]', '"Tools":[{0}]'))
    tools = form.format(draw(definitions()), draw(definitions()))
    cursor = draw(st.sampled_from(("", f',"nextCursor":"{NAMES[0]}"')))
    return f'{{"jsonrpc":"2.0","id":{draw(mostly("7", "99"))},"result":{{{tools}{cursor}}}}}'.encode()


@st.composite
def calls(draw: st.DrawFn) -> bytes:
    """What a client said: a call, or something with a call in it."""
    space = draw(mostly("", "\n", "\r", "\r\n"))
    params = draw(mostly('"name":"{0}"', '"name":"{1}","name":"{0}"', '"Name":"{1}","name":"{0}"'))
    params = params.format(draw(names), draw(names))
    method = draw(mostly("tools/call", "tools\\/c\\u0061ll", "ping"))
    key = draw(mostly("method", "Method", "m\\u0065thod"))
    call = f'{space}{{"jsonrpc":"2.0","id":8,"{key}":"{method}","params":{{{params}}}}}{space}'
    form = draw(
        mostly(
            "{}",
            "[{}]",
            '{{"jsonrpc":"2.0","method":"notifications/x","params":{{"a":{}}}}}',
            '{{"jsonrpc":"2.0","id":8,"result":{}}}',
            "text{}",
            '{{"method":"tools/call","params":{{"name":"read_all"}},"params":{}}}',
        )
    )
    return form.format(call).encode()


@examples(150)
@given(answers=st.lists(lists(), min_size=1, max_size=2), said=st.lists(calls(), min_size=1, max_size=2), chosen=names)
def test_a_server_gets_no_call_that_may_change_something(
    tmp_path_factory: Any, answers: list[bytes], said: list[bytes], chosen: str
) -> None:
    folder: Path = tmp_path_factory.mktemp("capture")
    capture = CaptureWriter(folder / "old.mcpcap", "weather")
    capture.handshake()
    capture.ask(20, 7, "tools/list")
    for raw in answers:
        capture.raw(20, "s2c", raw)
    for raw in said:
        capture.raw(30, "c2s", raw)
    script = read_whole(capture.close())
    with ExitStack() as stack:
        stack.callback(script.close)
        known = ToolHints(script)
        planned = plan(script, capture.path, "")
        safe = read_only(answers)
        if unsafe_calls(script, planned.items(script), known):
            return
        server = Server(chosen)
        for connection in planned.connections:
            conversation = Conversation(script, connection.numbers, ReplayOptions(), connection.skipped)
            replay(conversation, server, lambda outgoing: refusal(outgoing, known), lambda _: None)
        assert called(server.stream) <= safe
