"""Reverts past commits that fixed a bug, one at a time; a test must fail for each.

    python -m tests.bench.guard.history [--repository DIR] [--revision REVISION] [--only COMMIT ...]
                                        [--update] [--add COMMIT ...] [--quick] [--whole] [--scratch DIR] [--json]

`history.toml` lists the commits, and for each the test that noticed last time, which is tried first, even if it is now
in another file. If it is gone or does not fail, the tests that came with the commit are tried, then the test modules
that the commit changed, then those that name the modules, and with `--whole` the whole suite. `--update` writes what
was found. A test counts only if it passes when nothing is reverted. Exits with 1 if a commit goes unnoticed, no
longer applies, or leaves a product that does not run.
"""

import argparse
import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bench.guard.reverts import Revert, Suite, revert
from tests.bench.guard.scratch import ROOT, Scratch, end_on_signals

LIST: Final = Path(__file__).with_name("history.toml")
BUDGET_S: Final = 90.0
"""CPU time for each step of the search except the whole suite."""
WHOLE_S: Final = 1800.0
ABOUT: Final = """\
# Past commits that fixed a bug; `test` fails when the commit is reverted on today's tree.
# `python -m tests.bench.guard.history --update` writes this file; see its docstring.
"""
BROKEN: Final = re.compile(
    r"\b(Name|Import|ModuleNotFound)Error: |AttributeError\b.* has no attribute |is not subscriptable"
    r"|TypeError: .*\b(unexpected keyword|missing \d+ required|takes .* positional) "
)
"""Matches errors of a product that does not fit together after the revert: any test would notice that."""

NO_USE: Final = ("broken", "does not apply")
"""Outcomes that say nothing about the suite, so `--update` leaves the list's entry for such a commit unchanged."""


class Entry(NamedTuple):
    """A commit, and the test that notices when it is reverted; None if no test does."""

    commit: str
    subject: str
    modules: Sequence[str]
    test: str | None


class Outcome(NamedTuple):
    """The result of reverting a commit."""

    entry: Entry
    how: str
    """`recorded`, `moved`, `own`, `same files`, `named`, `whole`, `unnoticed`, `broken`, `does not apply`."""
    said: str = ""
    """The first line of the error."""


class Search:
    """Reverts commits in a scratch tree, and looks for a test that fails."""

    def __init__(self, scratch: Scratch, quick: bool, whole: bool) -> None:
        self.scratch, self.quick, self.whole = scratch, quick, whole
        self.suite = Suite(scratch.root)
        self.unsound: set[str] = set()
        """Tests that fail when nothing is reverted."""

    def prove(self, tests: Sequence[str]) -> None:
        """Run tests with nothing reverted, and note those that fail."""
        if wanted := sorted(set(tests) - self.unsound):
            results = self.scratch.run(wanted, options=(), whole_s=7200.0).results
            self.unsound |= {result.test for result in results if result.failed is not None}

    def search(self, entry: Entry) -> Outcome:
        """Revert a commit, and look for a test that fails."""
        taken = revert(self.scratch.root, entry.commit)
        entry = Entry(entry.commit, taken.subject, sorted(taken.texts), entry.test)
        if not taken.texts:
            return Outcome(entry, "does not apply")
        for how, tests in self._steps(entry, taken):
            if self.unsound:
                tests = [test for place in tests for test in self._expanded(place) if test not in self.unsound]
            if not tests:
                continue
            budget = WHOLE_S if how == "whole" else BUDGET_S
            options = ("-x", "-n", "2") if how == "whole" else ("-x",)
            with self.scratch.changed(dict(taken.texts)):
                run = self.scratch.run(tests, options=options, budget_s=budget, whole_s=3 * budget)
            if run.failure is not None:
                said = run.failure.failed or ""
                how = "broken" if said.startswith("not collected") or BROKEN.search(run.output) else how
                return Outcome(entry._replace(test=run.failure.test), how, said)
        return Outcome(entry._replace(test=None), "unnoticed")

    def _expanded(self, place: str) -> list[str]:
        if "::" in place:
            return [place]
        return sorted(test for test in self.suite.ids if test.startswith((f"{place}::", f"{place}/")))

    def _steps(self, entry: Entry, taken: Revert) -> Iterator[tuple[str, list[str]]]:
        if entry.test in self.suite.ids:
            yield "recorded", [entry.test]
        elif entry.test is not None:
            yield "moved", self.suite.by_name.get(entry.test.rpartition("::")[2], [])
        own = [test for name in sorted(taken.names) for test in self.suite.by_name.get(name, ())]
        yield "own", [test for test in own if test != entry.test]
        if self.quick:
            return
        before = [entry.test.partition("::")[0]] if entry.test is not None else []
        names = {_stem(path) for path in (*before, *taken.files)}
        same = [path for path in self.suite.texts if _stem(path) in names]
        yield "same files", same
        yield "named", [path for path in self.suite.about(list(taken.texts)) if path not in same]
        if self.whole:
            yield "whole", ["tests"]


def _stem(path: str) -> str:
    """The name of a test module without `_integration`, so it stays the same if unit tests become integration tests."""
    return Path(path).stem.removesuffix("_integration")


def read(path: Path = LIST) -> list[Entry]:
    """The commits of the list."""
    rows = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
    return [Entry(row["commit"], row["subject"], row["modules"], row.get("test")) for row in rows.get("commit", ())]


def written(entries: Sequence[Entry]) -> str:
    """The text of the list."""
    text = ABOUT
    for entry in entries:
        text += f"\n[[commit]]\ncommit = {json.dumps(entry.commit)}\nsubject = {_quoted(entry.subject)}\n"
        text += f"modules = [{', '.join(map(_quoted, entry.modules))}]\n"
        text += f"test = {_quoted(entry.test)}\n" if entry.test is not None else ""
    return text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def main() -> int:
    """Revert commits, and print which tests noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.guard.history", description=__doc__)
    parser.add_argument("--repository", type=Path, default=ROOT, metavar="DIR", help="where the suite is; this one")
    parser.add_argument("--revision", default="HEAD", help="of the suite and of the product")
    parser.add_argument("--only", nargs="+", metavar="COMMIT", help="take these back, and no others")
    parser.add_argument("--add", nargs="+", default=[], metavar="COMMIT", help="take these back, too")
    parser.add_argument("--update", action="store_true", help="write which test noticed to history.toml")
    parser.add_argument("--quick", action="store_true", help="run only the recorded tests and those of the commits")
    parser.add_argument("--whole", action="store_true", help="run the whole suite for what nothing else notices")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="keep the scratch tree here, for the next time")
    parser.add_argument("--json", action="store_true", help="print a JSON object per commit")
    options = parser.parse_args()
    end_on_signals()
    entries = read()
    known = {entry.commit for entry in entries}
    entries += [Entry(commit, "", (), None) for commit in options.add if commit not in known]
    if options.only:
        entries = [entry for entry in entries if entry.commit.startswith(tuple(options.only))]
    with tempfile.TemporaryDirectory(prefix="guard-") as folder:
        scratch = Scratch((options.scratch or Path(folder)).absolute(), options.repository, options.revision)
        search = Search(scratch, options.quick, options.whole)
        outcomes: dict[str, Outcome] = {}
        pending = entries
        while pending:
            for entry in pending:
                outcomes[entry.commit] = search.search(entry)
                _print(outcomes[entry.commit], options.json)
            noticed = {
                entry.commit: outcomes[entry.commit].entry.test
                for entry in pending
                if outcomes[entry.commit].how not in NO_USE
            }
            search.prove([test for test in noticed.values() if test is not None])
            pending = [entry for entry in pending if noticed.get(entry.commit) in search.unsound]
    found = [outcome.how for outcome in outcomes.values()]
    count = {how: found.count(how) for how in sorted(set(found))}
    print(f"{len(outcomes)} commits: {', '.join(f'{number} {how}' for how, number in count.items())}", file=sys.stderr)
    if options.update:
        kept = {entry.commit: entry for entry in read()}
        kept |= {commit: outcome.entry for commit, outcome in outcomes.items() if outcome.how not in NO_USE}
        LIST.write_text(written(list(kept.values())), "utf-8")
    return 1 if {"unnoticed", "broken", "does not apply"} & count.keys() else 0


def _print(outcome: Outcome, as_json: bool) -> None:
    entry = outcome.entry
    if as_json:
        row: dict[str, Any] = {"commit": entry.commit, "subject": entry.subject, "modules": list(entry.modules)}
        print(json.dumps({**row, "test": entry.test, "how": outcome.how, "said": outcome.said}), flush=True)
        return
    print(f"{entry.commit[:8]}  {outcome.how:<14}  {entry.subject[:60]:<60}  {entry.test or ''}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
