"""Exports a conversation as Markdown for an issue report: versions, findings, and all messages with folded bodies.

The text of a capture is untrusted, so all of it is in fences and HTML elements of `mcpproxy/wording/markdown.py`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from analysis.conversation.fold import Fold
from analysis.facts import size_of
from analysis.filter import Filter
from analysis.reading import Step
from analysis.rules.finding import Level
from mcpproxy import __version__
from mcpproxy.check_run.examine import CaptureCheck, CheckOptions
from mcpproxy.importers.form import origin_of
from mcpproxy.report.conversation import Conversation, ConversationItem, Times, frames_below
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.bodies import message_lines
from mcpproxy.wording.cells import UNLIMITED_WIDTH
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.logins import LoginSummary
from mcpproxy.wording.markdown import fenced_block, html_code, html_row
from mcpproxy.wording.names import peer_text, revisions_text
from mcpproxy.wording.units import duration, local_time, size

MAX_BODY_CHARS: Final = 8_192
"""The maximum number of characters of a body that are exported; `mcpproxy show --frame` prints the whole body."""
MAX_LISTED_FINDINGS: Final = 100
"""The maximum number of different findings that are listed; the others are only counted."""

_WIDE_GAP: Final = re.compile(" {3,}")


class ListedFinding(NamedTuple):
    """A row of the list of findings; findings that differ only in their frames share a row."""

    level: Level
    rule: str
    side: str
    problem: str


class CaptureFacts(NamedTuple):
    """The facts for the head of the export, which a first pass over the capture collects."""

    fold: Fold
    header: Mapping[str, Any]
    frame_count: int
    session_count: int
    findings: Mapping[ListedFinding, Sequence[int]]
    """For each listed finding, its first frame and how often it occurs; the worst findings come first."""
    finding_count: int
    """The number of all findings, including those that are not listed."""


def collect_facts(path: Path) -> CaptureFacts:
    """Check a capture; returns the facts for the head of its export.

    Args:
        path: the path of the capture.

    Raises:
        CaptureError: it cannot be read.
    """
    examination = CaptureCheck(path, CheckOptions())
    listed_findings: dict[ListedFinding, list[int]] = {}
    count = 0
    for located_finding in chain.from_iterable(step_findings for _, step_findings in examination.examine_to_end()):
        count += 1
        finding = located_finding.finding
        key = ListedFinding(finding.level, finding.rule, str(finding.blames), sanitise(located_finding.text, 500))
        entry = listed_findings.setdefault(key, [finding.frame, 0])
        entry[1] += 1
        if len(listed_findings) >= 4 * MAX_LISTED_FINDINGS:
            listed_findings = _keep_worst(listed_findings)
    findings = _keep_worst(listed_findings)
    return CaptureFacts(examination.fold, examination.header, examination.frames, examination.sessions, findings, count)


def _keep_worst(findings: Mapping[ListedFinding, list[int]]) -> dict[ListedFinding, list[int]]:
    """Return the worst `MAX_LISTED_FINDINGS` findings.

    If a dropped finding occurs again, it still ranks below these, so the counts of the listed findings are correct.
    """
    return dict(sorted(findings.items(), key=lambda item: (-item[0].level, item[1][0]))[:MAX_LISTED_FINDINGS])


class MarkdownExport:
    """Exports one capture as Markdown. The caller feeds it every step of reading the capture."""

    def __init__(
        self, path: Path, fold: Fold, facts: CaptureFacts, selection: Filter | None = None, times: Times = "rel"
    ) -> None:
        """Create an export to which no step has been fed yet.

        Args:
            path: the path of the capture; the export shows the file name.
            fold: the state of the conversation, which each step updates.
            facts: the facts about the whole capture.
            selection: matches the selected messages; None selects all.
            times: the form in which each message shows its time.
        """
        self._path, self._facts, self._selection = path, facts, selection
        self.message_count = 0
        """How many messages have been exported so far."""
        self._conversation = Conversation(fold, width=UNLIMITED_WIDTH, times=times, only=selection, unfold=True)

    @property
    def has_selected(self) -> bool:
        """Whether the filter has selected any message so far."""
        return self._conversation.has_selected

    def heading(self) -> str:
        """Return everything that comes before the conversation."""
        return "".join([*self._facts_block(), *self._findings_block(), "### Conversation\n\n"])

    def feed(self, step: Step) -> Iterator[str]:
        """Yield the Markdown of one step."""
        for item in self._conversation.items_of(step):
            yield self._item_markdown(item)

    def _item_markdown(self, item: ConversationItem) -> str:
        if isinstance(item.content, LoginSummary):
            return self._login_markdown(item)
        line = _WIDE_GAP.sub("  ", "  ".join(line.strip() for line in self._conversation.lines(item)))
        frames = frames_below(item.content)
        self.message_count += bool(frames)
        if not frames:
            return f"<div>{html_code(line)}</div>\n\n"
        kind = "json" if all(frame.verdict.kind not in ("invalid", "unjudged") for frame in frames) else "text"
        lines = (line for frame in frames for line in message_lines(frame))
        body = fenced_block(_truncate_lines(lines, frames[0].seq, size_of(frames)), kind)
        return f"<details><summary>{html_code(line)}</summary>\n\n{body}\n</details>\n\n"

    def _login_markdown(self, item: ConversationItem) -> str:
        line, *leg_lines = self._conversation.lines(item)
        body = fenced_block((_WIDE_GAP.sub("  ", leg_line.strip()) for leg_line in leg_lines), "text")
        summary = html_code(_WIDE_GAP.sub("  ", line.strip()))
        return f"<details><summary>{summary}</summary>\n\n{body}\n</details>\n\n"

    def _facts_block(self) -> Iterator[str]:
        fold, header = self._facts.fold, self._facts.header
        origin = origin_of(header)
        # An imported log may begin after the handshake, or contain no part of it.
        missing_name = "unknown" if origin and not fold.revisions else "does not name itself"
        extent = f"{count_text(self._facts.frame_count, 'frame')}, {count_text(self._facts.session_count, 'session')}"
        rows = [
            ("capture", sanitise(self._path.name, None)),
            ("client", missing_name if fold.client is None else peer_text(fold.client)),
            ("server", missing_name if fold.server is None else peer_text(fold.server)),
            ("revisions" if len(fold.revisions) > 1 else "revision", revisions_text(fold.revisions) or "unknown"),
            ("transport", sanitise(fold.transport or "unknown", 60)),
            ("extent", f"{extent}, {duration(fold.t_ns)}"),
            *self._contents_rows(),
            *([("imported", origin)] if origin else []),
            ("imported by" if origin else "recorded by", _text_or_unknown(header.get("tool"))),
            ("written by", f"mcpproxy {__version__}"),
        ]
        if fold.wall_ns is not None:
            rows.insert(1, ("opened", _opening_time(fold.wall_ns)))
        table = "".join(html_row([html_code(text)], name) for name, text in rows)
        yield f"## MCP conversation\n\n<table>\n{table}</table>\n\n"

    def _contents_rows(self) -> list[tuple[str, str]]:
        """Return the row that says which messages are exported, unless all are."""
        if self._selection is None:
            return []
        text = sanitise(self._selection.text, None)
        return [("messages", f"only those that match {text}" if text else "only some, which were selected")]

    def _findings_block(self) -> Iterator[str]:
        findings = self._facts.findings
        scope = "" if self._selection is None else " in the whole capture"
        yield f"### Findings{scope}: {self._facts.finding_count:,}\n\n"
        if not findings:
            return
        headings = ("level", "rule", "side", "first frame", "times", "problem")
        yield f"<table>\n<tr>{''.join(f'<th>{head}</th>' for head in headings)}</tr>\n"
        for finding, (frame, times) in findings.items():
            cells = (str(finding.level), finding.rule, finding.side, f"{frame}", f"{times:,}", finding.problem)
            yield html_row([html_code(cell) for cell in cells])
        yield "</table>\n\n"
        unlisted_count = self._facts.finding_count - sum(times for _, times in findings.values())
        if unlisted_count:
            yield f"And {unlisted_count:,} more; `mcpproxy check --notes` lists all.\n\n"
        if any(finding.level >= Level.WARNING for finding in findings):
            yield "`mcpproxy rule NAME` explains a rule.\n\n"


def _truncate_lines(lines: Iterable[str], frame: int, total_bytes: int) -> Iterator[str]:
    remaining = MAX_BODY_CHARS
    for line in lines:
        if len(line) > remaining:
            yield line[:remaining]
            yield f"… of {size(total_bytes)}; `mcpproxy show --frame {frame}` prints all"
            return
        remaining -= len(line) + 1
        yield line


def _opening_time(wall_ns: int) -> str:
    try:
        return local_time(wall_ns)
    except (ValueError, OverflowError, OSError):
        return "unknown"


def _text_or_unknown(value: object) -> str:
    return sanitise(value, 60) if isinstance(value, str) else "unknown"
