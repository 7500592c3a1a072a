"""Capture: a capture as tests see it, for assertions."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from analysis.conversation.call import MessageContext
from analysis.conversation.session import Peer
from analysis.filter import FilterError, parse
from analysis.reading import CaptureOverview, Reading, findings
from analysis.rules.finding import Finding, Level
from analysis.selection import matches
from captures.errors import CaptureError
from captures.record import Record, raw_bytes
from mcpproxy.sanitise import sanitise
from mcpproxy.testing.calls import Calls, RecordedCall
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.records import remark_on

__tracebackhide__: Final = True  # pytest shows the line of the test instead
_MAX_LISTED_FINDINGS: Final = 20
"""The maximum number of findings that the text of `Findings` lists."""


class Findings(list[Finding]):
    """What the rules found: a list, whose text has a line for each finding."""

    def __repr__(self) -> str:
        """Returns a line for each finding, at most some, safe to print: level, rule, frame and message."""
        if not self:
            return "[]"
        lines = [count_text(len(self), "finding")]
        lines += [
            f"  {finding.level} {finding.rule}, frame {finding.frame}: {sanitise(finding.message, 300)}"
            for finding in self[:_MAX_LISTED_FINDINGS]
        ]
        if len(self) > _MAX_LISTED_FINDINGS:
            lines.append(f"  … {len(self) - _MAX_LISTED_FINDINGS:,} more")
        return "\n".join(lines)


class Capture:
    """A capture for assertions. It is read on first use, and again only by another object.

    All text is that of the traffic, unchanged; only `repr` is safe to print.
    """

    def __init__(self, path: Path | str, *, keeper: object = None) -> None:
        """Name a capture, without reading it.

        Args:
            path: the file.
            keeper: an object that must exist as long as this one does, because the file is deleted with it.
        """
        self.path = Path(path)
        """The file."""
        self._keeper = keeper
        self._read_contents: _Contents | None = None

    def calls(self, tool: str | None = None, *, method: str | None = None, only: str = "") -> Calls:
        """Returns the requests of both sides with what became of them, in the order of the requests.

        Args:
            tool: only calls of the tool with this name.
            method: only requests with this method, such as `resources/read`.
            only: only those whose request or response a filter (docs/filter.md) selects, such as `latency>100ms`.

        Raises:
            CaptureError: the capture cannot be read.
            FilterError: the filter is invalid.
        """
        if tool is not None:
            method = method or "tools/call"
        try:
            message_filter = parse(only) if only else None
        except FilterError as error:
            raise error.with_traceback(None) from None
        selected_calls = (
            call
            for call in self._contents.calls
            if (tool is None or call.name == tool)
            and (method is None or call.method == method)
            and (message_filter is None or matches(message_filter, call.call))
        )
        return Calls(selected_calls, " ".join(filter(None, (method, tool, only))))

    def findings(self, level: Literal["error", "warning", "note"] = "note") -> Findings:
        """Returns what the rules of `mcpproxy check` find, at this level or a worse one.

        Args:
            level: the lowest level.

        Raises:
            CaptureError: the capture cannot be read.
            ValueError: there is no such level.
        """
        if level.upper() not in Level.__members__:
            raise ValueError(f"{level!r:.40} is not a level; the levels are error, warning and note")
        return Findings(finding for finding in self._findings if finding.level >= Level[level.upper()])

    @property
    def messages(self) -> Sequence[MessageContext]:
        """All messages in order, each with its call, session and revision: what `analysis.read` yields.

        Raises:
            CaptureError: the capture cannot be read.
        """
        return self._contents.messages

    @property
    def client(self) -> Peer | None:
        """The name and version of the client; None if it gave none."""
        return self._contents.overview.client

    @property
    def server(self) -> Peer | None:
        """The name and version of the server; None if it gave none."""
        return self._contents.overview.server

    @property
    def revision(self) -> str | None:
        """The revision of MCP; of several sessions, that of the last one; None if none was agreed on."""
        return next(reversed(self._contents.overview.revisions), None)

    @property
    def tools(self) -> dict[str, dict[str, Any]]:
        """The tools that the server listed, by name, as it defined them: in the last list that has each."""
        return {
            tool["name"]: tool
            for call in self.calls(method="tools/list")
            if isinstance(call.result, dict) and isinstance(call.result.get("tools"), list)
            for tool in call.result["tools"]
            if isinstance(tool, dict) and isinstance(tool.get("name"), str)
        }

    @property
    def stderr(self) -> str:
        """What the server wrote to stderr, as far as it was recorded; bytes that are not UTF-8 are replaced."""
        return self._contents.stderr

    @property
    def ending(self) -> str:
        """How the process of the server ended, such as `server exited 1`, safe to print; empty if that is unknown."""
        return self._contents.ending

    @property
    def _contents(self) -> "_Contents":
        if self._read_contents is None:
            try:
                self._read_contents = _Contents(self.path)
            except CaptureError as error:
                raise error.with_traceback(None) from None
        return self._read_contents

    @cached_property
    def _findings(self) -> list[Finding]:
        return list(findings(self.path))

    def __repr__(self) -> str:
        return f"<Capture {sanitise(str(self.path), None)}>"


class _Contents:
    """What one reading of a capture yields."""

    def __init__(self, path: Path) -> None:
        """Read a capture to its current end.

        Raises:
            CaptureError: the capture cannot be read.
        """
        reading = Reading(path)
        self.messages: list[MessageContext] = []
        stderr_lines: list[bytes] = []
        self.ending = ""
        for step in reading.to_end():
            self.messages += step.messages
            item = step.item
            if isinstance(item, Record) and item.rec == "stderr":
                stderr_lines.append(raw_bytes(item.members) or b"")
            elif isinstance(item, Record) and item.rec == "process":
                remark = remark_on(item, ended=False)
                self.ending = remark.text if remark is not None and remark.is_end else self.ending
        self.stderr = b"\n".join(stderr_lines).decode("utf-8", "replace")
        calls = {context.call.number: context.call for context in self.messages if context.call is not None}
        self.calls = [RecordedCall(calls[number]) for number in sorted(calls)]
        self.overview: CaptureOverview = reading.capture
