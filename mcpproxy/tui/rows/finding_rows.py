"""Finding rows: the lines of the list of findings: a head for each rule, and identical findings in one line."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TypeAlias

from analysis.rules.finding import Finding, Level
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.findings import LEVELS, SIGNS, Findings
from mcpproxy.tui.widgets.table import Column, MemoryRows, TableLine
from mcpproxy.wording.spans import Span
from mcpproxy.wording.units import offset_text

COLUMNS: Final = (
    Column("mark", "", 1),
    Column("frame", "frame", 8, is_right_aligned=True),
    Column("time", "time", 10, is_right_aligned=True, drop=1),
    Column("who", "who", 7, drop=2),
    Column("text", "finding", 24, stretch=True),
)
MAX_LISTED_AT_FIRST: Final = 20
"""How many findings are listed for each rule until the user asks for the rest."""
Identity: TypeAlias = tuple[str, Level, str, str, str]


def fitted_finding_columns(last_frame: int, last_ns: int) -> tuple[Column, ...]:
    """Returns the columns, no wider than the numbers and times of a capture need.

    Args:
        last_frame: the number of its last record.
        last_ns: the stamp of its last record.
    """
    widths = {"frame": len(f"{last_frame:,}"), "time": len(offset_text(last_ns))}
    return tuple(
        replace(column, width=max(len(column.title), widths.get(column.name, column.width))) for column in COLUMNS
    )


class FindingGroup(NamedTuple):
    """The findings of a rule at one level."""

    level: Level
    rule: str


class FindingItem(NamedTuple):
    """A line of the list: a group, a finding in it, or the number not shown."""

    group: FindingGroup
    finding: Finding | None = None
    total: int = -1
    """The number of findings in the group, or of those not shown."""
    is_head: bool = False
    times: int = 1
    """For a finding: how many identical findings the line represents; it shows the first of them."""
    is_spread: bool = False
    """Whether identical findings have a line each."""

    @property
    def identity(self) -> Identity | None:
        """Everything that identical findings share; None if the line is not a finding."""
        return None if self.finding is None else identity(self.finding)

    def is_same(self, other: "FindingItem") -> bool:
        """Whether it is the same line, regardless of its current numbers."""
        return (self.group, self.finding, self.is_head) == (other.group, other.finding, other.is_head)


def identity(finding: Finding) -> Identity:
    """Returns everything that the line of a finding shows, except its position."""
    return finding.rule, finding.level, finding.blames, finding.method, finding.message


class FindingRows(MemoryRows[FindingItem]):
    """The lines of the list."""

    def __init__(self) -> None:
        super().__init__()
        self.folded_groups: set[FindingGroup] = set()

    def line(self, row: int) -> TableLine:
        """Returns one line."""
        item = self.items[row]
        if item.is_head:
            sign, role = SIGNS[item.group.level], LEVELS[item.group.level]
            fold_sign = "▸" if item.group in self.folded_groups else "▾"
            spans = [Span(f"{sign} {item.group.level!s:<7}  ", role), Span(item.group.rule, "accent")]
            return TableLine(
                {"mark": (Span(fold_sign, "dim"),), "frame": (*spans, Span(f"  {item.total:,}"))}, wide_column="frame"
            )
        finding = item.finding
        if finding is None:
            return TableLine({"frame": (Span(f"         … {item.total:,} more", "dim"),)}, wide_column="frame")
        times = f"×{item.times:,}  " if item.times > 1 else ""
        return TableLine(
            {
                "frame": (Span(f"{finding.frame:,}"),),
                "time": (Span(offset_text(finding.t_ns), "dim"),),
                "who": (Span(finding.blames, "dim"),),
                "text": (Span(times, "accent"), Span(sanitise(finding.message, 300))),
            }
        )


def list_items(
    findings: Findings,
    folded_groups: set[FindingGroup],
    unfolded_groups: set[FindingGroup],
    words: str,
    spread_identities: Container[Identity] = (),
) -> Iterator[FindingItem]:
    """Yields the lines: the worst level first, then by rule, then in the order of the capture.

    Identical findings share a line, unless they are in `spread_identities`.

    Args:
        findings: all findings.
        folded_groups: groups that show only their head.
        unfolded_groups: groups that show more than the first findings.
        words: the filter: words that a finding must contain, and patterns for its rule.
        spread_identities: the identities of the findings that have a line each.
    """
    groups: dict[FindingGroup, list[Finding]] = {}
    terms = words.lower().split()
    for finding in list(findings.kept_findings):
        if has_all_words(finding, terms):
            groups.setdefault(FindingGroup(finding.level, finding.rule), []).append(finding)
    counts = dict(findings.counts)
    for group in sorted(groups, key=lambda group: (-group.level, group.rule)):
        members = sorted(groups[group], key=lambda finding: finding.frame)
        # For findings without text, only level and rule are known.
        count = counts.get(group, 0) if all(_matches(group, word) for word in terms) else len(members)
        yield FindingItem(group, total=count, is_head=True)
        if group in folded_groups:
            continue
        items = _lines(group, members, spread_identities)
        listed_items = items if group in unfolded_groups else items[:MAX_LISTED_AT_FIRST]
        yield from listed_items
        shown_count = sum(item.times for item in listed_items)
        if shown_count < count:
            yield FindingItem(group, total=count - shown_count)


def _lines(
    group: FindingGroup, findings: Iterable[Finding], spread_identities: Container[Identity]
) -> list[FindingItem]:
    """Returns the lines of some findings; identical findings share the line of the first."""
    items: list[FindingItem] = []
    index_of: dict[Identity, int] = {}
    for finding in findings:
        key = identity(finding)
        if key in spread_identities:
            items.append(FindingItem(group, finding, is_spread=True))
        elif key in index_of:
            items[index_of[key]] = items[index_of[key]]._replace(times=items[index_of[key]].times + 1)
        else:
            index_of[key] = len(items)
            items.append(FindingItem(group, finding))
    return items


def has_all_words(finding: Finding, terms: Sequence[str]) -> bool:
    """Whether a finding contains all terms; a term with a `*` or `?` is a pattern for its rule."""
    if not terms:
        return True
    text = f"{finding.level} {finding.rule} {finding.blames} {finding.method} {finding.message}".lower()
    return all(fnmatchcase(finding.rule, word) if is_pattern(word) else word in text for word in terms)


def is_pattern(word: str) -> bool:
    """Whether a word is a pattern."""
    return "*" in word or "?" in word


def _matches(group: FindingGroup, word: str) -> bool:
    return fnmatchcase(group.rule, word) if is_pattern(word) else word in f"{group.level} {group.rule}"
