"""Peers: what both sides declare is shown, regardless of what they send, and nothing in it acts on the terminal."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.peers import PeerInfo, introductions
from mcpproxy.tui.rows.peer_lines import peer_page
from tests.captures.samples import header
from tests.examples import examples
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import END, Middles, frame_record, record

CORPUS = Path(__file__).parents[2] / "corpus/captures"


def call(id_: int, method: str, params: object) -> tuple[str, bytes]:
    return frame_record("c2s", json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode())


def answer(id_: int, result: object) -> tuple[str, bytes]:
    return frame_record("s2c", json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}).encode())


def handshake(id_: int, client: str, capabilities: object, **more: object) -> Middles:
    """A handshake in which the server declares some capabilities."""
    asked = {"protocolVersion": "2025-06-18", "clientInfo": {"name": client, "version": "1"}, "capabilities": {}}
    result = {"protocolVersion": "2025-03-26", "serverInfo": {"name": "s"}, "capabilities": capabilities, **more}
    return [call(id_, "initialize", asked), answer(id_, result)]


def text_of(path: Path, row: int | None = None, width: int = 80) -> str:
    """The text of the peers page of a capture."""
    reading = Reading(path)
    while not reading.has_ended:
        reading.step()
    page = peer_page(introductions(reading, row), width)
    reading.close()
    return "\n".join("".join(span.text for span in line)[1:].rstrip() for line in page.lines)


def test_a_handshake_as_it_was(tmp_path: Path) -> None:
    capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": False}, "logging": {}, "x": 5}
    made = handshake(1, "Cursor", capabilities, instructions="Ask first.\nThen search.")
    path = record(tmp_path / "x.mcpcap", [("header", header()), *made, END])
    assert text_of(path).splitlines() == [
        "CLIENT  initialize, frame 1",
        "  name          Cursor 1",
        "  asks for      2025-06-18",
        "  capabilities  none",
        "",
        "SERVER  initialize, frame 2",
        "  name          s",
        "  speaks        2025-03-26",
        "  capabilities",
        "    tools           listChanged",
        "    resources       subscribe: false",
        "    logging",
        "    x               5",
        "    not declared: completions, prompts",
        "  instructions",
        "    Ask first.",
        "    Then search.",
    ]


def test_a_later_handshake_shows_what_changed_next_to_the_other_side() -> None:
    info = {"name": "s", "version": "1"}
    made = [
        PeerInfo("client", 2, "initialize", "2025-11-25", {"name": "c"}, {}),
        PeerInfo("server", 3, "initialize", "2025-11-25", {**info, "title": "S"}, {"tools": {}}, "Ask."),
        PeerInfo("client", 41, "server/discover", "2026-07-28", {"name": "c"}, {}),
        PeerInfo("server", 42, "server/discover", ["2026-07-28"], info, {"tools": {}}, "Ask."),
        PeerInfo("client", 50, "initialize", note="refused"),
    ]
    page = peer_page(made, 83, is_wide=True, marked=3)
    lines = ["".join(span.text for span in line) for line in page.lines]
    assert [[text.rstrip() for text in line.split(" │ ")] for line in lines[-8:]] == [
        [" CLIENT  server/discover, frame 41", "▸SERVER  server/discover, frame 42"],
        ["   asks for      2026-07-28", "   speaks        2026-07-28"],
        ["   as in frame 2: name, capabilities", "   title         –"],
        ["", "   as in frame 3: name, capabilities,"],
        ["", "   instructions"],
        [""],
        [" CLIENT  initialize, frame 50", ""],
        ["   refused", ""],
    ]
    for number, place in enumerate(page.places):
        assert page.introduction_at(place.line, place.cell + 5) == number
    assert page.introduction_at(len(lines), 0) is None


def test_of_several_handshakes_the_last_before_the_row_counts(tmp_path: Path) -> None:
    made = [*handshake(1, "first", {}), *handshake(2, "second", {}), *handshake(3, "third", {})]
    path = record(tmp_path / "x.mcpcap", [("header", header()), *made, END])
    for row, name in ((0, "first"), (2, "first"), (4, "second"), (None, "third")):
        assert f"name          {name} 1" in text_of(path, row), row


def test_a_client_that_never_introduces_itself_says_so_in_its_requests(tmp_path: Path) -> None:
    meta = {"io.modelcontextprotocol/clientInfo": {"name": "new"}, "io.modelcontextprotocol/clientCapabilities": {}}
    path = record(
        tmp_path / "x.mcpcap", [("header", header()), call(1, "tools/list", {"_meta": meta}), answer(1, {}), END]
    )
    assert "CLIENT  tools/list, frame 1\n  name          new\n" in text_of(path)


def test_a_refusal_and_a_giant_say_why_there_is_nothing(tmp_path: Path) -> None:
    refused = frame_record("s2c", b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"never\\u001b heard"}}')
    made = [call(1, "server/discover", {}), refused, *handshake(2, "c", {}, instructions="x" * (2 << 20))]
    text = text_of(record(tmp_path / "x.mcpcap", [("header", header()), *made, END]))
    assert "refused: never\\x1b heard" in text
    assert "SERVER  initialize, frame 4\n  the frame is too large to be shown here" in text


def test_peers_of_the_corpus() -> None:
    assert text_of(CORPUS / "demo.mcpcap").count("  as in frame ") == 2
    assert text_of(CORPUS / "good.mcpcap") == ""


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@given(anything, anything, anything, anything, st.integers(1, 200))
@examples(40)
def test_any_values_make_safe_lines(
    revision: object, info: object, capabilities: object, text: object, width: int
) -> None:
    said_ = PeerInfo("server", 3, "initialize\x1b", revision, info, capabilities, text)
    introductions_ = [said_, said_._replace(side="client", note="\x07"), said_, said_._replace(info=None)]
    for is_wide in (False, True):
        page = peer_page(introductions_, width, is_wide=is_wide)
        assert all(sanitise(span.text, None) == span.text for line in page.lines for span in line)


def test_values_are_bounded() -> None:
    nested: object = "x"
    for _ in range(2000):
        nested = [nested]
    many = {f"c{number}": {f"s{place}": True for place in range(1000)} for number in range(1000)}
    page = peer_page([PeerInfo("server", 3, "initialize", nested, {"name": "n" * 10**6}, many, "i" * 10**6)], 80)
    assert len(page.lines) < 6000
    assert "more characters" in page.lines[-1][1].text
