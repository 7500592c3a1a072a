"""mcp_mock: a capture in place of its server."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, TypeAlias

from analysis.comparison.values.ignored_places import IgnoreError, parse_place
from captures.errors import CaptureError
from captures.reader import Capture
from mcpproxy.testing.commands import PROGRAM, Server, Target, target_of
from mcpproxy.testing.misses import OF_MOCK, Advice
from mcpproxy.testing.server import PASSED, Played, RecordedServer, Source

__tracebackhide__: Final = True  # pytest shows the line of the test instead

Match: TypeAlias = Literal["arguments", "exact", "method", "sequence"]
"""Which recorded request a request matches; see docs/commands/mock.md."""
OnMiss: TypeAlias = Literal["error", "nearest", "pass"]
"""What a request gets that was not recorded: an error, the answer to the nearest one, or that of the real server."""
_PLAIN_NAME: Final = re.compile(r"\w[\w.-]{0,63}", re.ASCII)
_LISTEN: Final = ("--listen", "127.0.0.1:0")


def mcp_mock(
    capture: Path | str,
    *,
    match: Match = "arguments",
    on_miss: OnMiss = "error",
    strict: bool = False,
    speed: float | None = None,
    ignore: Iterable[str] | str = (),
    server: Server | None = None,
) -> RecordedServer:
    """Play a capture in place of its server.

    Use the result in a `with` statement. If the client asks for what was not recorded, the block fails with
    `RequestsMissed`, which names the nearest recorded request. Nothing is started before the client asks for it.

    Args:
        capture: the capture to play.
        match: which recorded request a request matches.
        on_miss: what a request gets that was not recorded.
        strict: whether the block also fails if the client never sent some requests of the capture.
        speed: how many times as fast as recorded; None for at once.
        ignore: places in params that do not count, as for `mcpproxy mock --ignore`; one, or several.
        server: with `on_miss="pass"`, the real server, as for `mcp_record`.

    Raises:
        CaptureError: the capture cannot be read.
        TypeError: `server` is not a server.
        ValueError: `server` is missing for `on_miss="pass"`, or is given although nothing is passed on; or `ignore` is
            wrong.
    """
    if (on_miss == "pass") != (server is not None):
        raise ValueError('on_miss="pass" needs a `server`, and nothing else uses one')
    target = None if server is None else target_of(server)
    return RecordedServer(
        mock_source(
            Path(capture),
            match=match,
            on_miss=on_miss,
            strict=strict,
            speed=speed,
            ignore=as_places(ignore),
            target=target,
        )
    )


def as_places(ignore: Iterable[str] | str) -> tuple[str, ...]:
    """Returns places to ignore, given as one or several, after a check.

    Raises:
        ValueError: one of them is not a place in params.
    """
    places = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    for place in places:
        try:
            parse_place(place)
        except IgnoreError:
            raise ValueError(
                f"ignore={place!r:.80}: expected a JSON Pointer into the params, such as /arguments/text"
            ) from None
    return places


def mock_source(
    capture: Path,
    *,
    match: Match = "arguments",
    on_miss: OnMiss = "error",
    strict: bool = False,
    speed: float | None = None,
    ignore: tuple[str, ...] = (),
    target: Target | None = None,
    advice: Advice = OF_MOCK,
) -> Source:
    """Returns a mock that plays a capture; over stdio, and over HTTP.

    Args:
        capture: the capture.
        match: which recorded request a request matches.
        on_miss: what a request gets that was not recorded.
        strict: whether requests of the capture that the client never sent are an error.
        speed: how many times as fast as recorded; None for at once.
        ignore: places in params that do not count, as from `as_places`.
        target: the server that was recorded, whose environment and working directory its stand-in gets; with
            `on_miss="pass"`, it is asked.
        advice: what to do about a miss.

    Raises:
        CaptureError: the capture cannot be read.
    """
    try:
        members = Capture(capture).header.members  # a test should fail here, and not in its client
    except CaptureError as error:
        raise error.with_traceback(None) from None
    name = members.get("name")
    words = ["--match", match, "--on-miss", on_miss, *(f"--ignore={place}" for place in ignore)]
    if strict:
        words.append("--strict")
    if speed is not None:
        words += ["--speed", f"{speed:g}"]
    if on_miss == "pass":
        words += ["--capture", PASSED]
    operands = [os.path.abspath(capture), *(target.words if target is not None and on_miss == "pass" else ())]
    return Source(
        (*PROGRAM, "mock", *words, *operands),
        listening=("mock", *_LISTEN, *words, *operands),
        parameters=None if target is None else target.parameters,
        played=Played(capture, ignore, advice, is_redacted="redacted_by" in members),
        name=name if isinstance(name, str) and _PLAIN_NAME.fullmatch(name) else "",
        is_strict=strict,
    )
