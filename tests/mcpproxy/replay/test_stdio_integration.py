"""The lines that a server with a command gets: one for each message, however the server splits them."""

import json
import sys
from pathlib import Path

import pytest

from mcpproxy.replay.conversation import Outgoing
from mcpproxy.replay.stdio import StdioTransport

READER = (
    "import sys\n"
    "with open(sys.argv[1], 'w', encoding='utf-8') as log:\n"
    "    for line in sys.stdin:\n"  # splits at carriage returns, too
    "        log.write(line)\n"
)


@pytest.mark.costly("starts a recorder and a server")
def test_each_message_is_one_line_and_what_cannot_be_one_is_refused(tmp_path: Path) -> None:
    call = b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"delete"}}'
    units = [b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":%b%b%b}}' % (end, call, end)
             for end in (b"\n", b"\r", b"\r\n")]  # fmt: skip
    log = tmp_path / "log"
    transport = StdioTransport((sys.executable, "-c", READER, str(log)), str(tmp_path / "new.mcpcap"), "reader")
    try:
        assert [transport.send(Outgoing(unit)) for unit in units] == [None] * 3
        for raw in (b"text\n" + call, b'"\r' + call, b"{\n" + call):
            reason = transport.send(Outgoing(raw))
            assert reason is not None
            assert "not JSON" in reason
    finally:
        transport.close()
    lines = log.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["method"] for line in lines] == ["notifications/x"] * 3
