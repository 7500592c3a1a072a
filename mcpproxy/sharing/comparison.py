"""Compares what the rules find in a capture and in its redacted copy."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from analysis.checking.checker import Checker
from analysis.protocol.json_pointer import names, step
from analysis.rules.discovery import rules_for
from analysis.rules.finding import Finding
from captures.frame import Frame
from captures.reader import Capture, Damage, read_frames
from captures.record import Record
from mcpproxy.sharing.account import Account


class Findings:
    """What the rules find in one capture, which is fed item by item."""

    def __init__(self) -> None:
        self._checker = Checker(rules_for(lambda _: True))
        self._found: Counter[tuple[str, int, str]] = Counter()

    def feed(self, item: Frame | Record | Damage) -> None:
        """Process the next item."""
        self._add(self._checker.feed(item))

    def finish(self) -> Counter[tuple[str, int, str]]:
        """How many findings there are, by rule, frame and pointer; no more items will follow."""
        self._add(self._checker.finish("closed" if self._checker.fold.ending is not None else "killed"))
        return self._found

    def _add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._found[finding.rule, finding.frame, finding.pointer] += 1


def compare(before: Findings, copy: Path, account: Account) -> None:
    """Add to the account which findings the copy keeps, hides and creates.

    Args:
        before: those of the original.
        copy: the copy.
        account: of the share.
    """
    after = Findings()
    for item in read_frames(Capture(copy)):
        after.feed(item)
    renamed = account.renamed  # names occur in pointers
    old = Counter[tuple[str, int, str]]()
    for (rule, frame, pointer), count in before.finish().items():
        moved = "".join(f"/{step(renamed.get(name, name))}" for name in names(pointer)) if renamed else pointer
        old[rule, frame, moved] += count
    new = after.finish()
    account.is_compared = True
    account.findings_before = old.total()
    account.findings_kept = (old & new).total()
    for (rule, _, _), count in (old - new).items():
        account.hidden[rule] += count
    for (rule, _, _), count in (new - old).items():
        account.created[rule] += count
