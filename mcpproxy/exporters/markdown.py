"""A conversation as Markdown for an issue report: versions, findings, and each message with its body folded away.

Issue trackers turn text into links, mentions, references, images and HTML, and all text here is a peer's. So none of it
is placed where Markdown is parsed: it is either in a fence that is longer than any run of backticks in it, or escaped
in a `<code>` of an HTML block. Such a block ends at an empty line, which no sanitised text contains, and trackers leave
`code` and `pre` alone. So no text can leave its element, or act.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
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
from mcpproxy.report.conversation import Conversation, ConversationItem, Times, whole_of
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.bodies import message_lines
from mcpproxy.wording.cells import WHOLE
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.names import peer_text, revisions_text
from mcpproxy.wording.units import duration, local_time, size

ROOM: Final = 65_536
"""Characters that GitHub accepts in an issue or a comment."""
BODY: Final = 8_192
"""Characters of a body; `mcpproxy show --frame` prints all of it."""
FINDINGS: Final = 100
"""Different findings that are listed; the others are counted."""

_BACKTICKS: Final = re.compile("`+")
_GAP: Final = re.compile(" {3,}")


class ListedFinding(NamedTuple):
    """A finding as it is listed: findings that differ only in the frame count as the same."""

    level: Level
    rule: str
    side: str
    problem: str


class CaptureFacts(NamedTuple):
    """What a first pass has found out about a capture."""

    fold: Fold
    header: Mapping[str, Any]
    frames: int
    sessions: int
    findings: Mapping[ListedFinding, Sequence[int]]
    """The first frame of each and how often it occurs, the worst first; `FINDINGS` at most."""
    found: int
    """How many there are, including those that are not listed."""


def facts_of(path: Path) -> CaptureFacts:
    """Check a capture.

    Args:
        path: the path of the capture.

    Raises:
        CaptureError: it cannot be read.
    """
    examination = CaptureCheck(path, CheckOptions())
    worst: dict[ListedFinding, list[int]] = {}
    count = 0
    for located in (one for _, found in examination.to_end() for one in found):
        count += 1
        finding = located.finding
        listed = ListedFinding(finding.level, finding.rule, str(finding.blames), sanitise(located.text, 500))
        known = worst.setdefault(listed, [finding.frame, 0])
        known[1] += 1
        if len(worst) >= 4 * FINDINGS:
            worst = _worst(worst)
    findings = _worst(worst)
    return CaptureFacts(examination.fold, examination.header, examination.frames, examination.sessions, findings, count)


def _worst(findings: Mapping[ListedFinding, list[int]]) -> dict[ListedFinding, list[int]]:
    """The first `FINDINGS`. A dropped one could only return after these, so their counts are right."""
    return dict(sorted(findings.items(), key=lambda item: (-item[0].level, item[1][0]))[:FINDINGS])


class MarkdownExport:
    """The Markdown of one capture. Feed it the steps of its reading."""

    def __init__(
        self, path: Path, fold: Fold, facts: CaptureFacts, only: Filter | None = None, times: Times = "rel"
    ) -> None:
        """Create an export to which no step has been fed yet.

        Args:
            path: the path of the capture, for its name.
            fold: the state of the conversation, as its reading keeps it.
            facts: what is known about the whole capture.
            only: selects the messages; None for all.
            times: how each message shows its time.
        """
        self._path, self._facts = path, facts
        self._conversation = Conversation(fold, width=WHOLE, times=times, only=only)

    @property
    def has_selected(self) -> bool:
        """Whether anything was selected."""
        return self._conversation.has_selected

    def heading(self) -> str:
        """Everything before the conversation."""
        return "".join([*self._facts_block(), *self._findings_block(), "### Conversation\n\n"])

    def feed(self, step: Step) -> Iterator[str]:
        """The Markdown of one step."""
        for thing in self._conversation.items_of(step):
            yield self._thing(thing)

    def _thing(self, thing: ConversationItem) -> str:
        line = _GAP.sub("  ", "  ".join(line.strip() for line in self._conversation.lines(thing)))
        frames = whole_of(thing.what)
        if not frames:
            return f"<div>{code(line)}</div>\n\n"
        kind = "json" if all(frame.verdict.kind not in ("invalid", "unjudged") for frame in frames) else "text"
        lines = (line for frame in frames for line in message_lines(frame))
        body = fenced(_cut(lines, frames[0].seq, size_of(frames)), kind)
        return f"<details><summary>{code(line)}</summary>\n\n{body}\n</details>\n\n"

    def _facts_block(self) -> Iterator[str]:
        fold, header = self._facts.fold, self._facts.header
        origin = origin_of(header)
        # A log may begin after the handshake, or have nothing of it.
        unnamed = "unknown" if origin and not fold.revisions else "does not name itself"
        extent = f"{count_text(self._facts.frames, 'frame')}, {count_text(self._facts.sessions, 'session')}"
        rows = [
            ("capture", sanitise(self._path.name, None)),
            ("client", unnamed if fold.client is None else peer_text(fold.client)),
            ("server", unnamed if fold.server is None else peer_text(fold.server)),
            ("revisions" if len(fold.revisions) > 1 else "revision", revisions_text(fold.revisions) or "unknown"),
            ("transport", sanitise(fold.transport or "unknown", 60)),
            ("extent", f"{extent}, {duration(fold.t_ns)}"),
            *([("imported", origin)] if origin else []),
            ("imported by" if origin else "recorded by", _text(header.get("tool"))),
            ("written by", f"mcpproxy {__version__}"),
        ]
        if fold.wall_ns is not None:
            rows.insert(1, ("opened", _opened(fold.wall_ns)))
        yield f"## MCP conversation\n\n<table>\n{''.join(_row([code(text)], name) for name, text in rows)}</table>\n\n"

    def _findings_block(self) -> Iterator[str]:
        findings = self._facts.findings
        yield f"### Findings: {self._facts.found:,}\n\n"
        if not findings:
            return
        heads = ("level", "rule", "side", "first frame", "times", "problem")
        yield f"<table>\n<tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>\n"
        for found, (frame, times) in findings.items():
            cells = (str(found.level), found.rule, found.side, f"{frame}", f"{times:,}", found.problem)
            yield _row([code(cell) for cell in cells])
        yield "</table>\n\n"
        more = self._facts.found - sum(times for _, times in findings.values())
        if more:
            yield f"And {more:,} more; `mcpproxy check --notes` lists all.\n\n"
        if any(found.level >= Level.WARNING for found in findings):
            yield "`mcpproxy rule NAME` explains a rule.\n\n"


def code(text: str) -> str:
    """Text in an HTML block, for text that is sanitised and so has no line ends."""
    return f"<code>{escape(text)}</code>"


def fenced(lines: Iterable[str], kind: str) -> str:
    """Lines in a fence that none of them can close."""
    text = "".join(f"{line}\n" for line in lines)
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{text}{fence}\n"


def _row(cells: Iterable[str], head: str = "") -> str:
    first = f"<th>{head}</th>" if head else ""
    return f"<tr>{first}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"


def _cut(lines: Iterable[str], frame: int, whole: int) -> Iterator[str]:
    room = BODY
    for line in lines:
        if len(line) > room:
            yield line[:room]
            yield f"… of {size(whole)}; `mcpproxy show --frame {frame}` prints all"
            return
        room -= len(line) + 1
        yield line


def _opened(wall_ns: int) -> str:
    try:
        return local_time(wall_ns)
    except (ValueError, OverflowError, OSError):
        return "unknown"


def _text(value: object) -> str:
    return sanitise(value, 60) if isinstance(value, str) else "unknown"
