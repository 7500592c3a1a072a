"""What to fix first: the violated rules, ordered by their effect on a user, one line each.

It remembers the count and the first finding of each rule and, for one capture at a time, which sessions broke which
rule. This is as much as the report itself remembers.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from analysis.rules.discovery import impact_of
from analysis.rules.finding import Blames, Impact, Level
from captures.paths import SUFFIX
from mcpproxy.check_run.result import CheckOutcome, LocatedFinding
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells
from mcpproxy.wording.spans import Role, Span, Style

MAX_LISTED_RULES: Final = 5
"""The maximum number of rules that are listed: as many as people can read at a glance."""
_MIN_NAME_CELLS: Final = 5
"""The minimum width of a capture's name, in cells: its last four characters are random, and every command that reads
captures accepts them as its name.
"""

_WORDS: Final[dict[Impact, str]] = {
    Impact.CONNECTION: "no connection",
    Impact.SECURITY: "security risk",
    Impact.MESSAGE: "message lost",
    Impact.WRONG: "wrong outcome",
    Impact.COST: "wasted effort",
    Impact.HINT: "no effect yet",
}
_ROLES: Final[dict[Level, Role]] = {Level.ERROR: "bad", Level.WARNING: "accent", Level.NOTE: "plain"}


class BrokenRule:
    """A broken rule: its first violation, its level, and its count."""

    def __init__(self, located: LocatedFinding, capture: int) -> None:
        self.first_finding = located
        self.capture = capture
        """The position of its capture among all captures."""
        self.level = Level.NOTE
        self.sides: set[Blames] = set()
        self.count = 0

    def count_finding(self, located: LocatedFinding) -> None:
        """Count a finding."""
        self.level = max(self.level, located.finding.level)
        self.sides.add(located.finding.blames)
        self.count += located.finding.finding_count

    @property
    def rule(self) -> str:
        """The id of the rule."""
        return self.first_finding.finding.rule

    @property
    def impact(self) -> Impact:
        """What breaking it can cost."""
        return impact_of(self.rule, self.level)

    @property
    def impact_text(self) -> str:
        """The impact in words."""
        return _WORDS[self.impact]

    @property
    def side(self) -> str:
        """The side at fault, or `several`."""
        return next(iter(self.sides)) if len(self.sides) == 1 else "several"


class RuleRanking:
    """Ranks rules over all captures."""

    def __init__(self) -> None:
        self._rules: dict[str, BrokenRule] = {}
        self._capture_count = 0
        self._violations: set[tuple[str, int, str]] = set()
        """Rule, session and side of the findings in this capture."""

    def begin(self) -> None:
        """Begin the next capture."""
        self._capture_count += 1
        self._violations.clear()

    def count_finding(self, located: LocatedFinding) -> None:
        """Count a finding."""
        finding = located.finding
        self._rules.setdefault(finding.rule, BrokenRule(located, self._capture_count)).count_finding(located)
        self._violations.add((finding.rule, finding.session, finding.blames))

    def finish(self, ended: CheckOutcome) -> None:
        """Count violations that are reported only the first time."""
        for key, count in ended.counts.items():
            if key in self._violations:
                self._rules[key[0]].count += count - 1

    def ranked_rules(self) -> list[BrokenRule]:
        """Returns all broken rules, in the order in which to fix them."""
        return sorted(self._rules.values(), key=_rank_key)

    def lines(self, style: Style, width: int) -> Iterator[str]:
        """Yields the top of the ranking, a line for each rule, or nothing if there is no choice to make."""
        if len(self._rules) < 2:
            return
        top_rules = self.ranked_rules()[:MAX_LISTED_RULES]
        longest = max(len(rule.impact_text) for rule in top_rules)
        heads = [_head(rank, rule, longest) for rank, rule in enumerate(top_rules, 1)]
        widest = max(map(_width, heads))
        for head, tail in zip(heads, self._tails(top_rules, widest, width), strict=True):
            head_width = _width(head)
            # If not everything fits, the side is dropped first, then the count: both are shown above.
            while tail and head_width + sum(2 + cells(cell) for cell in tail) > width:
                del tail[0]
            text = "  ".join(tail)
            gap = (widest + 2 if width >= UNLIMITED_WIDTH else width - cells(text)) - head_width
            head.append(Span(" " * gap + text if tail else "", "dim"))
            yield style.paint(head).rstrip()

    def _tails(self, top_rules: list[BrokenRule], head_width: int, width: int) -> Iterator[list[str]]:
        """Yields the cells after each head; the widest head uses `head_width` cells."""
        columns = [
            [rule.side for rule in top_rules],
            [f"×{rule.count:,}" if rule.count > 1 else "" for rule in top_rules],
            [f"frame {rule.first_finding.finding.frame}" for rule in top_rules],
        ]
        if self._capture_count > 1:
            available = width - head_width - max(map(len, columns[-1])) - 4
            columns.append(
                [
                    _name_end(rule.first_finding.capture, max(_MIN_NAME_CELLS, min(available, width // 8)))
                    for rule in top_rules
                ]
            )
        yield from map(list, zip(*(_padded(column) for column in columns if any(column)), strict=True))


def _rank_key(rule: BrokenRule) -> tuple[int, ...]:
    """Returns the sort key: worst impact, worst level and most findings first; then a cause before its consequences.

    Notes come last, whatever their impact: they report something legal, perhaps by a draft that can still change.
    """
    return (
        rule.level == Level.NOTE,
        -rule.impact,
        -rule.level,
        -rule.count,
        rule.capture,
        rule.first_finding.finding.frame,
    )


def _head(rank: int, rule: BrokenRule, longest: int) -> list[Span]:
    words = Span(f"{rule.impact_text:<{longest}}", _ROLES[rule.level])
    return [Span(f"{'' if rank > 1 else 'First':<5} {rank}  "), words, Span(f"  {rule.rule}")]


def _width(spans: list[Span]) -> int:
    return sum(cells(span.text) for span in spans)


def _padded(column: list[str]) -> list[str]:
    widest = max(map(cells, column))
    return [cell + " " * (widest - cells(cell)) for cell in column]


def _name_end(capture: Path, width: int) -> str:
    """Returns the end of a capture's name, which is enough to name it in a command, in at most `width` cells."""
    name = sanitise(str(capture), None).removesuffix(SUFFIX)
    if len(name) <= width and cells(name) <= width:
        return name
    name = name[-width:]
    # A combining mark alone would join the character before it.
    while cells(name) >= width or (name and not cells(name[0])):
        name = name[1:]
    return f"…{name}"
