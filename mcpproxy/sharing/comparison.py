"""Compares what the rules find in a capture and in its redacted copy."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from analysis.checking.checker import RuleSelection
from analysis.protocol.json_pointer import decode_steps, encode_step
from analysis.reading import Reading
from analysis.rules.finding import Finding
from captures.reader import Capture
from mcpproxy.sharing.account import RedactionAccount

FindingCounts: TypeAlias = Counter[tuple[str, int, str]]
"""The number of findings by rule, frame and pointer, which do not change in a copy."""


def finding_counts(findings: Iterable[Finding]) -> FindingCounts:
    """Count findings by rule, frame and pointer."""
    return Counter([(finding.rule, finding.frame, finding.pointer) for finding in findings])


def compare(original_findings: FindingCounts, copy: Path, account: RedactionAccount) -> None:
    """Count in the account how many findings the copy keeps, hides and creates.

    Args:
        original_findings: the findings of the original, counted.
        copy: the path of the copy.
        account: the account of the share.
    """
    reading = Reading(
        iter(Capture(copy)), RuleSelection()
    )  # this process's lock on the copy must not make it a live capture
    copy_counts = finding_counts(finding for read_step in reading.to_end() for finding in read_step.findings)
    renamed = account.renamed_members  # names occur in pointers
    original_counts = Counter[tuple[str, int, str]]()
    for (rule, frame, pointer), count in original_findings.items():
        copy_pointer = (
            "".join(f"/{encode_step(renamed.get(name, name))}" for name in decode_steps(pointer))
            if renamed
            else pointer
        )
        original_counts[rule, frame, copy_pointer] += count
    account.is_compared = True
    account.findings_before = original_counts.total()
    account.findings_kept = (original_counts & copy_counts).total()
    for (rule, _, _), count in (original_counts - copy_counts).items():
        account.hidden_findings[rule] += count
    for (rule, _, _), count in (copy_counts - original_counts).items():
        account.created_findings[rule] += count
