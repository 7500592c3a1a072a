"""Finding lines: findings and rules as lines, and short texts about checks and losses, for several screens."""

from collections.abc import Sequence

from analysis.rules.discovery import rules
from analysis.rules.finding import Finding, Level
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.conversation import MissingRange
from mcpproxy.tui.data.findings import LEVELS, SIGNS, Findings
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.details.proof import proof_lines
from mcpproxy.tui.rows.code_spans import code_lines
from mcpproxy.wording.counts import count_text, lost_text
from mcpproxy.wording.rule_pages import addresses, facts, sections, summary_of
from mcpproxy.wording.spans import Span
from mcpproxy.wording.wrapping import wrapped


def finding_lines(
    finding: Finding, width: int, proof: Sequence[list[Span]] = (), *, with_page: bool = False
) -> list[list[Span]]:
    """Returns a finding in full, with its proof if that has been read, and the summary or the page of its rule."""
    sign, role = SIGNS[finding.level], LEVELS[finding.level]
    head = [Span(f"{sign} {finding.level}  ", role), Span(finding.rule, "accent")]
    place_texts = [f"frame {finding.frame:,}"]
    if finding.item is not None:
        place_texts[0] += f" item {finding.item}"
    if finding.method:
        place_texts.append(sanitise(finding.method, 80))
    if finding.pointer:
        place_texts.append(f"at {sanitise(finding.pointer, 200)}")
    if finding.related:
        place_texts.append(f"see also {', '.join(f'{number:,}' for number in finding.related[:5])}")
    lines = [head, [Span("  ".join(place_texts), "dim")]]
    lines += [[Span(line)] for line in wrapped(sanitise(finding.message, None), width)]
    if with_page and finding.rule in rules():
        return [*lines, *proof, [], *page_lines(finding.rule, width)]
    return [*lines, *proof, *rule_lines(finding.rule, width, is_short=True)]


def rule_lines(rule: str, width: int, *, is_short: bool = False) -> list[list[Span]]:
    """Returns the summary of a rule and, unless `is_short`, its sections."""
    known_rule = rules().get(rule)
    if known_rule is None:
        return []
    lines = [[Span(line, "dim")] for line in wrapped(summary_of(known_rule), width)]
    for heading, text in () if is_short else sections(known_rule):
        lines += [[Span(line, "dim")] for line in wrapped(f"{heading}: {text}" if heading else text, width)]
    return code_lines(lines, "plain")


def page_lines(rule: str, width: int) -> list[list[Span]]:
    """Returns the page of a rule, without its id."""
    known_rule = rules().get(rule)
    if known_rule is None:
        return [[Span(f"there is no rule {rule}", "bad")]]
    page = [[Span(line)] for line in wrapped(summary_of(known_rule), width)]
    for heading, text in sections(known_rule):
        page += [[], *([[Span(heading, "accent")]] if heading else [])]
        page += [[Span(f"  {line}")] for line in wrapped(text, width - 2)]
    page.append([])
    for name, text in facts(known_rule):
        fact_lines = wrapped(text, width - 12)
        page += [[Span(f"{'' if number else name:<12}", "dim"), Span(line)] for number, line in enumerate(fact_lines)]
    return code_lines(page) + [[Span(f"  {address}", "dim")] for address in addresses(known_rule.source)]


def rule_title(rule: str, findings: Findings) -> list[Span]:
    """Returns a rule with the worst level and the number of its findings in a capture."""
    counts = {level: findings.counts[level, rule] for level in Level if findings.counts[level, rule]}
    if not counts:
        return [Span(rule, "accent")]
    sign, role = SIGNS[max(counts)], LEVELS[max(counts)]
    return [
        Span(f"{sign} {max(counts)} ", role),
        Span(rule, "accent"),
        Span(f" · {sum(counts.values()):,} here", "dim"),
    ]


def findings_in(reading: Reading, row: int) -> list[Finding]:
    """Returns the findings in a row whose texts are kept; for a login and its legs, those in all their records."""
    rows = reading.logins.rows_in(row)
    return [finding for other_row in rows for finding in reading.findings.findings_at(other_row)]


def row_lines(reading: Reading, row: int, width: int) -> list[list[Span]]:
    """Returns all findings in a row, in full; for a login and its legs, those in all their records. Reads the file."""
    findings, rows = reading.findings, reading.logins.rows_in(row)
    detailed_findings = findings_in(reading, row)
    count = sum(findings.worst_level_and_count(other_row)[1] for other_row in rows)
    lines: list[list[Span]] = []
    for finding in sorted(detailed_findings, key=lambda finding: -finding.level):
        lines += [*finding_lines(finding, width, proof_lines(reading, finding, width)), []]
    if count > len(detailed_findings):
        rules_in_rows = dict.fromkeys(rule for other_row in rows for rule in findings.rules_at(other_row))
        rule_list = ", ".join(rules_in_rows)
        other_count = count - len(detailed_findings)
        text = f"{other_count:,} more, shown in full by `mcpproxy check`; all rules in this row: {rule_list}"
        lines += [[Span(line, "dim")] for line in wrapped(text, width)]
    if not count:
        is_checked = rows[-1] < findings.checked_count or findings.has_ended
        lines.append([Span("nothing found" if is_checked else findings.trouble or "not checked yet …", "dim")])
    return lines


def short_lines(reading: Reading, row: int, width: int) -> list[list[Span]]:
    """Returns the worst five findings in a row, in a few lines each."""
    lines: list[list[Span]] = []
    for finding in sorted(findings_in(reading, row), key=lambda finding: -finding.level)[:5]:
        lines += [[], [Span(f"{SIGNS[finding.level]} {finding.rule}", LEVELS[finding.level])]]
        lines += [[Span(line)] for line in wrapped(sanitise(finding.message, 300), width)]
    return lines


def progress_text(findings: Findings, rows: int) -> str:
    """Returns the progress of the check."""
    if findings.checked_count < rows or not findings.has_caught_up:
        return f"checked {findings.checked_count:,} of {max(rows, findings.checked_count):,} records"
    return f"all {count_text(findings.checked_count, 'record')} checked"


def losses_text(losses: Sequence[MissingRange]) -> str:
    """Returns how many records a capture has lost, and where."""
    count = sum(loss.missing for loss in losses)
    first_range = losses[0]
    range_text = (
        f"{first_range.first:,} to {first_range.last:,}"
        if first_range.last > first_range.first
        else f"{first_range.first:,}"
    )
    if len(losses) > 1:
        range_text = f"{len(losses):,} places, the first {range_text}"
        return f"{lost_text(count)} in {range_text}"
    return f"{lost_text(count)}: {range_text}"
