"""The column `extension` of calls."""

from pathlib import Path

from analysis.store.stats import Figures
from tests.analysis.store.capture_writer import CaptureWriter
from tests.analysis.store.test_views_integration import loaded
from tests.analysis.talk import META


def test_sessions_have_what_the_last_request_declared(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "modern.mcpcap", "modern")
    name = "io.modelcontextprotocol/clientCapabilities"
    for number, value in enumerate(({}, {"extensions": {"com.example/foo": {}}}, 5), 1):
        writer.ask(number, number, "tools/list", _meta={**META, name: value})
    with loaded([writer.close()]) as base:
        assert base.ask("select client_capabilities from sessions") == [('{"extensions":{"com.example/foo":{}}}',)]
        assert Figures(base.connection, []).extensions() == [("client", "com.example/foo", 1)]


def test_calls_have_the_extension_of_their_method(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "modern.mcpcap", "modern")
    for number, method in enumerate(("tasks/get", "skills/list", "tools/list", "acme/dig"), 1):
        writer.ask(number, number, method, _meta=META)
    older = CaptureWriter(tmp_path / "older.mcpcap", "older", 1)
    start = {"protocolVersion": "2025-11-25", "capabilities": {}}
    older.ask(1, 1, "initialize", **start)
    older.answer(2, 1, **start)
    for number, method in enumerate(("tasks/get", "skills/list"), 2):
        older.ask(number, number, method)
    with loaded([writer.close(), older.close()]) as base:
        assert base.ask("select server, method, extension from calls where extension is not null order by all") == [
            ("modern", "skills/list", "io.modelcontextprotocol/skills"),
            ("modern", "tasks/get", "io.modelcontextprotocol/tasks"),
            ("older", "skills/list", "io.modelcontextprotocol/skills"),
        ]
        assert base.ask("select count(*) from exchanges where extension is null") == [(4,)]
