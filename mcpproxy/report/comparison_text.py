"""A comparison as text for people: the verdict first, then the changes, the worst first, then figures and gaps."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from analysis.comparison.change import ABSENT, Change, Comparison, SideSummary
from analysis.comparison.kind import FailOn, Severity
from mcpproxy.report.comparison_files import side_name
from mcpproxy.report.comparison_folding import folded, subjects_text
from mcpproxy.report.comparison_ranking import mark_text, ranked
from mcpproxy.report.comparison_tables import latency_lines, size_lines
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells, fit, fit_ends
from mcpproxy.wording.change_kinds import ROLES
from mcpproxy.wording.change_lines import values_text
from mcpproxy.wording.changes import (
    MAX_MESSAGE_CHARS,
    MAX_NAME_CHARS,
    compared_text,
    failures_of,
    gap_text,
    ignored_text,
    message_text,
    places_text,
    proof_text,
    side_facts,
    value_texts,
    verdict_text,
)
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Role, Span, Style, fit_spans
from mcpproxy.wording.wrapping import wrapped

MIN_WIDTH: Final = 40
MAX_SHOWN_PER_KIND: Final = 20
"""The most changes of one kind that are shown, and the most subjects of a change; the others are counted."""
SCREEN_LINES: Final = 24
"""The lines of a small terminal; a longer text ends with the verdict, because its beginning has left the screen."""
MAX_SHOWN_NOTES: Final = 20
"""The most notes that are shown."""
MAX_NAMED_IN_NOTE: Final = 3
"""The most subjects that a note names, if it is the same for several."""
MAX_SHOWN_GAPS: Final = 10
"""The most things that were not compared, apart from failures, that are named."""
_FINDING_WORDS: Final = {"finding/new-note": "new: ", "finding/gone": "gone: "}
"""What a note about a finding begins with, because the sentence is that of the finding, and notes show no kinds."""
_HINT: Final = "`mcpproxy compare --explain KIND` explains a kind; `mcpproxy show --frame N CAPTURE` shows a frame"
MAX_VALUE_CELLS: Final = 300
"""The most cells of a value; more than fits in a line of a terminal, because output may be searched."""


def comparison_lines(
    comparison: Comparison, style: Style, width: int, fail_on: frozenset[FailOn] = frozenset()
) -> Iterator[str]:
    """Yields the lines of a comparison.

    Args:
        comparison: the comparison.
        style: the colours.
        width: the width of a line, in cells; at least 40.
        fail_on: the words of `--fail-on`.
    """
    text = _ComparisonText(comparison, style, max(MIN_WIDTH, width), fail_on)
    tables = latency_lines(comparison.latencies, style, text.width), size_lines(comparison.sizes, style, text.width)
    lines = [
        *text.verdict_lines(),
        *text.side_lines(),
        *text.failure_lines(),
        *text.change_lines(),
        *text.note_lines(),
        *(line for table in map(list, tables) if table for line in ("", *table)),
        *text.end_lines(),
        *text.hint_lines(),
    ]
    yield from lines
    if len(lines) > SCREEN_LINES:
        yield from ("", *text.verdict_lines())


class _ComparisonText:
    """Writes the parts of a comparison."""

    def __init__(self, comparison: Comparison, style: Style, width: int, fail_on: frozenset[FailOn]) -> None:
        self._comparison = comparison
        self._fail_on = fail_on
        self._changes = ranked(comparison.changes, fail_on)
        self._style = style
        self.width = width
        self._value_width = min(width - 10, MAX_VALUE_CELLS)

    def verdict_lines(self) -> Iterator[str]:
        """Yields the verdict."""
        comparison = self._comparison
        worst = max((change.severity for change in comparison.changes), default=Severity.NOTE)
        verdict = verdict_text(comparison, self._fail_on)
        role: Role = "bad" if failures_of(comparison) else ROLES[worst]
        for line in wrapped(verdict[0].upper() + verdict[1:], self.width):
            yield self._style.paint([Span(line, role)])

    def side_lines(self) -> Iterator[str]:
        """Yields what the sides are, and what was compared."""
        comparison = self._comparison
        old_facts, new_facts = side_facts(comparison.old), side_facts(comparison.new)
        common = [fact for fact in old_facts if fact in new_facts]
        for label, side, facts in (("old", comparison.old, old_facts), ("new", comparison.new, new_facts)):
            yield from self._side_lines(label, side, [fact for fact in facts if fact not in common])
        texts = ["both: " + ", ".join(common)] if common else []
        compared = compared_text(comparison)
        texts += [f"compared: {compared}"] if comparison.changes and compared else []
        for text in texts:
            yield from self._labelled("", text, "dim")

    def _side_lines(self, label: str, side: SideSummary, facts: list[str]) -> Iterator[str]:
        name = fit_ends(side_name(side), self.width - 7)
        head = [Span(f"  {label}  ", "dim"), Span(name, "accent")]
        text = ", ".join(facts)
        if cells(name) + 2 + cells(text) <= self.width - 7:
            yield self._style.paint([*head, Span(f"  {text}".rstrip(), "dim")])
        else:
            yield self._style.paint(head)
            yield from self._labelled("", text, "dim")
        for warning in side.warnings:
            yield from self._labelled("▲", sanitise(warning, MAX_MESSAGE_CHARS), "warm")

    def _labelled(self, label: str, text: str, role: Role = "plain") -> Iterator[str]:
        """Yields a text under the names of the sides, with a label to the left of its first line."""
        for number, line in enumerate(wrapped(text, self.width - 7)):
            yield self._style.paint([Span(f"  {'' if number else label:<3}  {line}", role)]).rstrip()

    def change_lines(self) -> Iterator[str]:
        """Yields the changes that are more than notes, or fail, by subject; that with the worst change is first."""
        shown, hidden = _shown_changes(folded(self._changes.listed))
        by_subjects: dict[str, list[list[Change]]] = {}
        for group in shown:
            by_subjects.setdefault(subjects_text(group, MAX_SHOWN_PER_KIND), []).append(group)
        if by_subjects:
            yield ""
        for subjects, groups in by_subjects.items():
            has_one = len(groups[0]) == 1
            for line in [fit_ends(subjects, self.width)] if has_one else wrapped(subjects, self.width):
                yield self._style.paint([Span(line, "accent")])
            for group in groups:
                yield from self._change_lines(group[0])
        if hidden:
            for kind_id, count in hidden.items():
                yield f"and {count:,} more of {kind_id}"
            yield self._hint()

    def _change_lines(self, change: Change) -> Iterator[str]:
        severity = f"  {change.severity!s:<9}  "
        mark = mark_text(change, self._fail_on)
        spans = [Span(severity, ROLES[change.severity]), Span(change.kind.id), Span(f"  {mark}" if mark else "", "bad")]
        yield self._with_places(spans, change)
        for line in wrapped(message_text(change), self.width - 4):
            yield f"    {line}"
        yield from self._value_lines(change)
        proof = proof_text(change, self._value_width - 32)
        if proof:
            yield from (f"      {line}" for line in wrapped(proof, self.width - 6))

    def _value_lines(self, change: Change) -> Iterator[str]:
        both = values_text(change, self._comparison, self._value_width)
        if cells(both) <= self.width - 6:
            yield from [f"      {both}"] if both else []
            return
        before, after = value_texts(change, self._value_width)
        for label, text in (("was", before), ("now", after)):
            if text is not None:
                yield f"      {label} {fit(text, self._value_width)}"

    def _with_places(self, head: list[Span], change: Change) -> str:
        """Returns a line with the frames at its end, if they fit."""
        places = places_text(change, self._comparison)
        head, head_cells = fit_spans(head, self.width)
        if not places:
            return self._style.paint(head)
        gap = 2 if self.width >= UNLIMITED_WIDTH else self.width - head_cells - cells(places)
        if gap < 2:
            return (
                self._style.paint(head) + "\n" + self._style.paint([Span(f"    {fit(places, self.width - 4)}", "dim")])
            )
        return self._style.paint([*head, Span(" " * gap + places, "dim")])

    def note_lines(self) -> Iterator[str]:
        """Yields the first notes, a line for each, and how many more there are."""
        notes = self._changes.notes
        if not notes:
            return
        yield ""
        yield self._style.paint([Span("notes", "accent")])
        groups = folded(notes)
        for group in groups[:MAX_SHOWN_NOTES]:
            note = group[0]
            word = _FINDING_WORDS.get(note.kind.id, "")
            text = f"{subjects_text(group, MAX_NAMED_IN_NOTE)}: {word}{message_text(note)}"
            values = values_text(note, self._comparison, 40) if ABSENT not in (note.before, note.after) else ""
            text += f"; {values}" if values else ""
            lines = list(wrapped(text, self.width - 4))
            yield from (f"  {'· ' if not number else '  '}{line}" for number, line in enumerate(lines))
        if len(groups) > MAX_SHOWN_NOTES:
            hidden = sum(map(len, groups[MAX_SHOWN_NOTES:]))
            yield f"  and {count_text(hidden, 'more note')}"
            yield self._hint("  ")

    def _hint(self, indent: str = "") -> str:
        return self._style.paint([Span(f"{indent}--format json lists all", "dim")])

    def end_lines(self) -> Iterator[str]:
        """Yields what was ignored, and what was not compared without making the comparison fail."""
        comparison = self._comparison
        if comparison.ignored:
            yield ""
            yield self._style.paint([Span("ignored", "accent")])
            for ignored in comparison.ignored:
                yield f"  {fit(ignored_text(ignored), self.width - 2)}"
        by_reason: dict[str, list[str]] = {}
        for gap in comparison.gaps:
            if not gap.is_failure:
                by_reason.setdefault(gap.reason, []).append(gap.what)
        texts = [
            f"{_listed(names)}: {sanitise(reason, MAX_MESSAGE_CHARS)}"
            for reason, names in list(by_reason.items())[:MAX_SHOWN_GAPS]
        ]
        yield from self._gap_lines("not compared", texts, len(by_reason) - len(texts), "plain")

    def hint_lines(self) -> Iterator[str]:
        """Yields the commands that say more about the changes; nothing if there are none."""
        if self._comparison.changes:
            yield ""
            for line in wrapped(_HINT, self.width):
                yield self._style.paint([Span(line, "dim")])

    def failure_lines(self) -> Iterator[str]:
        """Yields what made the comparison fail, if it is more than the verdict names."""
        failures = failures_of(self._comparison)
        if len(failures) > 1:
            texts = [gap_text(gap) for gap in failures[:MAX_SHOWN_PER_KIND]]
            yield from self._gap_lines("could not be compared", texts, len(failures) - len(texts), "bad")

    def _gap_lines(self, title: str, texts: Sequence[str], hidden: int, role: Role) -> Iterator[str]:
        if texts:
            yield ""
            yield self._style.paint([Span(title, "accent")])
        for text in texts:
            for number, line in enumerate(wrapped(text, self.width - 4)):
                yield self._style.paint([Span(f"  {'  ' if number else '· '}{line}", role)])
        if hidden:
            yield f"  and {hidden:,} more"
            yield self._hint("  ")


def _listed(names: Sequence[str]) -> str:
    """Returns the first names, and how many others there are."""
    more = f", and {len(names) - MAX_SHOWN_GAPS:,} more" if len(names) > MAX_SHOWN_GAPS else ""
    return ", ".join(sanitise(name, MAX_NAME_CHARS) for name in names[:MAX_SHOWN_GAPS]) + more


def _shown_changes(groups: Sequence[list[Change]]) -> tuple[list[list[Change]], Counter[str]]:
    """Returns the groups of changes to show, and how many other changes there are of each kind."""
    counts: Counter[str] = Counter()
    shown, hidden = [], Counter[str]()
    for group in groups:
        kind_id = group[0].kind.id
        counts[kind_id] += 1
        if counts[kind_id] > MAX_SHOWN_PER_KIND:
            hidden[kind_id] += len(group)
        else:
            shown.append(group)
    return shown, hidden
