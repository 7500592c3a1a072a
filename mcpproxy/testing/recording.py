"""mcp_record: records the conversation of a test with a real server, or plays a cassette of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mcpproxy.testing.cassette import Cassette, Mode
from mcpproxy.testing.commands import Server, target_of
from mcpproxy.testing.mocking import Match, as_places
from mcpproxy.testing.server import RecordedServer, Source

__tracebackhide__: Final = True  # pytest shows the line of the test instead


def mcp_record(
    server: Server,
    *,
    cassette: Path | str | None = None,
    mode: Mode = "once",
    match: Match = "arguments",
    ignore: Iterable[str] | str = (),
) -> RecordedServer:
    """Record what a test says to a server, or play a cassette of it in the server's place.

    Use the result in a `with` statement. Nothing is started before the client asks for it.

    Args:
        server: a command, as a list or as one text; `StdioServerParameters` of the official SDK; or a URL.
        cassette: the file of a cassette, which is written if the block ends without an exception; None to record only.
        mode: with a cassette, what to do: `once` records it if the file is missing, and plays it otherwise; `none`
            only plays it; `new` plays it and asks the server for what is not in it; `all` always records.
        match: which request of the cassette a request matches.
        ignore: places in params that do not count, as for `mcpproxy mock --ignore`; one, or several.

    Raises:
        FileNotFoundError: the mode is `none`, and there is no cassette.
        TypeError: `server` is none of these.
        ValueError: the command is empty, or there is no such mode, or `ignore` is wrong.
    """
    target = target_of(server)
    if cassette is None:
        return RecordedServer(Source(target.command, target.url, parameters=target.parameters))
    kept = Cassette(Path(cassette), mode, match, as_places(ignore))
    return RecordedServer(kept.source(target), at_end=kept.write)
