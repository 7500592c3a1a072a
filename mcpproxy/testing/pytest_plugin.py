"""The plugin for pytest: the fixtures `mcp_record` and `mcp_mock`, and the marker `mcp`.

pytest imports this module in every run, so it imports nothing of mcpproxy before a test uses a fixture or the marker.
"""

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

if TYPE_CHECKING:
    from mcpproxy.testing.pytest_servers import ServersOfTest
    from mcpproxy.testing.server import RecordedServer

_MARKER: Final = (
    'mcp(cassette="NAME.mcpcap", mode="once|none|new|all", match="arguments", ignore=("/arguments/now",)): '
    "record what the test says to the server of mcp_record, or play the cassette instead"
)
_FIXTURES: Final = ("mcp_record", "mcp_mock")
_SERVERS: "Final[pytest.StashKey[ServersOfTest]]" = pytest.StashKey()

ServerFactory: TypeAlias = "Callable[..., RecordedServer]"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the mode, and the ini option for the folder of cassettes."""
    group = parser.getgroup("mcp", "recordings of MCP servers (mcpproxy)")
    group.addoption(
        "--mcp-mode",
        choices=("once", "none", "new", "all"),
        help="overrides the mode of @pytest.mark.mcp: once records missing cassettes and plays others (default), none "
        "only plays (default if CI is set), new also asks the server for what is not recorded, all records "
        "everything again",
    )
    parser.addini("mcp_cassettes", "folder for all cassettes (default: the folder cassettes next to each test module)")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test whose marker is invalid, or used by none of its fixtures."""
    if item.get_closest_marker("mcp") is not None:
        from mcpproxy.testing.pytest_marker import check_markers

        check_markers(item, _FIXTURES)


def _servers_of(request: pytest.FixtureRequest) -> Iterator["ServersOfTest"]:
    """Yield the servers of a test; both fixtures share them."""
    from mcpproxy.testing.pytest_servers import ServersOfTest

    item = request.node
    servers = ServersOfTest(item, request.getfixturevalue("tmp_path"))
    item.stash[_SERVERS] = servers
    yield servers
    servers.close()


_mcp_servers = pytest.fixture(name="_mcp_servers")(_servers_of)


@pytest.fixture
def mcp_record(_mcp_servers: "ServersOfTest") -> ServerFactory:
    """Records a server, given as a command, `StdioServerParameters` or a URL; use the result in a `with` statement.

    With the marker `mcp`, it records or plays the cassette.
    """
    return _mcp_servers.record


@pytest.fixture
def mcp_mock(_mcp_servers: "ServersOfTest") -> ServerFactory:
    """Plays a capture in place of its server; use the result in a `with` statement.

    With the marker `mcp`, the capture may be left out: it is the cassette.
    """
    return _mcp_servers.mock


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test whose mock got requests that are not in its capture, even if the client went on."""
    result = yield
    if _SERVERS in item.stash:
        item.stash[_SERVERS].check()
    return result


@pytest.hookimpl(wrapper=True, trylast=True)  # innermost, so that xfail and others see the exception of the test
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report what a mock did not have first, and add the conversation to the report of a test that failed."""
    if _SERVERS not in item.stash:
        return (yield)
    from mcpproxy.testing.pytest_report import Failure

    servers, raised = item.stash[_SERVERS], call.excinfo
    failure = None if raised is None else Failure.of(raised, servers.take_misses())
    if failure is not None:
        call.excinfo = failure.shown
    try:
        report = yield
    finally:
        call.excinfo = raised
    if failure is not None and not failure.is_only_miss:
        report.sections.append(("raised by the test", str(item.repr_failure(failure.raised))))
    servers.on_report(report)
    return report


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain `findings == []` with a line for each finding."""
    if op == "==" and type(left).__module__ == "mcpproxy.testing.capture" and isinstance(left, list):
        heading, *lines = repr(left).splitlines()
        return [f"{heading} == {right!r:.100}", *lines]
    return None
