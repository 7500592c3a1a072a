"""Compares what the rules find in a capture and in its redacted copy."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from analysis.checking.checker import Rules
from analysis.protocol.json_pointer import names, step
from analysis.reading import Reading
from analysis.rules.finding import Finding
from captures.reader import Capture
from mcpproxy.sharing.account import RedactionAccount

FindingCounts: TypeAlias = Counter[tuple[str, int, str]]
"""Findings by what does not change in a copy: rule, frame and pointer."""


def finding_counts(findings: Iterable[Finding]) -> FindingCounts:
    """Findings, counted."""
    return Counter([(finding.rule, finding.frame, finding.pointer) for finding in findings])


def compare(before: FindingCounts, copy: Path, account: RedactionAccount) -> None:
    """Add to the account which findings the copy keeps, hides and creates.

    Args:
        before: the findings of the original.
        copy: the copy.
        account: the account of the share.
    """
    reading = Reading(iter(Capture(copy)), Rules())  # our own lock on the copy must not make it a live capture
    new = finding_counts(finding for each in reading.to_end() for finding in each.findings)
    renamed = account.renamed  # names occur in pointers
    old = Counter[tuple[str, int, str]]()
    for (rule, frame, pointer), count in before.items():
        moved = "".join(f"/{step(renamed.get(name, name))}" for name in names(pointer)) if renamed else pointer
        old[rule, frame, moved] += count
    account.is_compared = True
    account.findings_before = old.total()
    account.findings_kept = (old & new).total()
    for (rule, _, _), count in (old - new).items():
        account.hidden[rule] += count
    for (rule, _, _), count in (new - old).items():
        account.created[rule] += count
