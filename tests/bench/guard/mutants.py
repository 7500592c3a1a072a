"""Small random changes of the product, from a fixed seed: how many of them fail a test.

    python -m tests.bench.guard.mutants --map MAP --results FILE [--repository DIR] [--revision REVISION]
                                        [--product REVISION] [--only GROUP ...] [--count N] [--part K/N]
                                        [--budget SECONDS] [--again] [--survivors-of FILE] [--scratch DIR] [--json]
    python -m tests.bench.guard.mutants --compare BEFORE AFTER [--json]

Twelve groups of modules, 25 changes each. For each change, the tests that execute its line are run, according to the
map that `tests.bench.guard.covering` made of the same suite: the cheapest first, until one fails or they have used
their CPU time. If the line runs at import, these are all tests that execute any line of the module. A change that makes
a test take far too long counts as killed, too.

FILE gets a line for each change, so a run that was interrupted can be resumed; `--again` tries the survivors again.
Several runs may share the work and the file: `--part 1/2` tries every other change. `--compare` shows two suites side
by side, and exits with 1 if the second one kills fewer changes of a group. For an earlier suite, it is enough to try
the changes that survived the later one (`--survivors-of` with its results): if the earlier one kills none of them, the
later one kills at least as many.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.bench.guard.covering import GROUPS, Map, modules
from tests.bench.guard.covering import read as read_map
from tests.bench.guard.mutator import Mutant, mutants
from tests.bench.guard.scratch import ROOT, Scratch, end_on_signals

SEED: Final = "2026-11"
COUNT: Final = 25
BUDGET_S: Final = 45.0
"""CPU time for each change."""
FIRST_S: Final = 4.0
"""The part of it for the first run of pytest: most changes are killed by tests that take milliseconds."""
FILE_S: Final = 0.1
"""CPU time for the collection of another test module."""
PATIENCE: Final = 20
"""How many times longer than before a test may take, in addition to `PATIENCE_S`."""
PATIENCE_S: Final = 60.0
KILLED: Final = ("killed", "timed out")
UNSURE: Final = "unsure"
"""The outcome if the tests also took too long without the change; the next run tries it again."""


def chosen(mutant: Mutant, map_: Map, budget_s: float) -> list[list[str]]:
    """The tests for a change, as two runs of pytest, of which the first is short."""
    executed = map_.lines.get(mutant.module, {})
    if mutant.within is not None:
        first, last = mutant.lines
        found = {name for line in range(first, last + 1) for name in executed.get(line, ())}
    else:
        found = {name for names in executed.values() for name in names}
    costs = sorted((map_.tests[name].processor_s, name) for name in found if not map_.tests[name].failed)
    runs: list[list[str]] = [[], []]
    used, files = 0.0, set[str]()
    for cost, name in costs:
        file = name.partition("::")[0]
        used += cost + (0.0 if file in files else FILE_S)
        files.add(file)
        if used > budget_s and any(runs):
            break
        runs[used > FIRST_S].append(name)
    return [_by_file(names) for names in runs if names]


def _by_file(names: Sequence[str]) -> list[str]:
    """Tests grouped by module, as they share fixtures; the module with the cheapest test comes first."""
    files = list(dict.fromkeys(name.partition("::")[0] for name in names))
    return sorted(names, key=lambda name: files.index(name.partition("::")[0]))


def judge(scratch: Scratch, mutant: Mutant, map_: Map, budget_s: float) -> dict[str, Any]:
    """Run the tests for a change."""
    text = (scratch.root / mutant.module).read_text("utf-8")
    runs = chosen(mutant, map_, budget_s)
    row: dict[str, Any] = {"outcome": "survived" if runs else "uncovered", "test": None, "said": None}
    used, tried = 0.0, 0
    with scratch.changed({mutant.module: mutant.applied(text)}):
        for names in runs:
            longest = max(map_.tests[name].wall_s for name in names)
            limit_s = PATIENCE_S + PATIENCE * longest
            whole = sum(map_.tests[name].wall_s for name in names)
            run = scratch.run(
                names, budget_s=budget_s - used, test_s=limit_s, whole_s=limit_s + PATIENCE * min(whole, budget_s)
            )
            used, tried = used + run.processor_s, tried + len(run.results)
            failure = run.failure
            if failure is not None or run.timed_out or not run.results:
                said = (failure.failed or "") if failure is not None else run.output.strip()[-200:]
                late = "Timeout (>" in said or (run.timed_out and failure is None)
                row |= {"outcome": "timed out" if late else "killed", "said": said}
                row["test"] = failure.test if failure is not None else None
                break
    if row["outcome"] == "timed out":
        # The machine may be to blame; then the tests take as long without the change.
        again = scratch.run([row["test"]] if row["test"] else names, test_s=limit_s, whole_s=limit_s)
        row["outcome"] = "timed out" if again.results and again.failure is None else UNSURE
    return row | {"processor_s": round(used, 1), "tried": tried, "tests": sum(map(len, runs))}


def rows(path: Path) -> dict[str, dict[str, Any]]:
    """The last line about each change in a file of results."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def _all(root: Path, groups: Sequence[str], count: int) -> Iterator[tuple[str, Mutant]]:
    for group in groups:
        texts = {path: (root / path).read_text("utf-8") for path in modules(root, group)}
        for mutant in mutants(texts, count, f"{SEED}:{group}"):
            yield group, mutant


def _line(row: dict[str, Any]) -> str:
    place = f"{row['module']}:{row['line']}"
    change = f"{row['before']!r:.40} -> {row['after']!r:.40}"
    return f"{row['outcome']:<10} {place:<48} {row['kind']:<10} {change}  {row['test'] or ''}"


def summary(found: dict[str, dict[str, Any]], as_json: bool) -> None:
    """Print how many changes of each group were killed."""
    for group in GROUPS:
        outcomes = [row["outcome"] for row in found.values() if row["group"] == group]
        count = {name: outcomes.count(name) for name in (*KILLED, "survived", "uncovered", UNSURE)}
        if as_json and outcomes:
            print(json.dumps({"group": group, **count}))
        elif outcomes:
            print(f"{group:<16} {len(outcomes):>3}: " + ", ".join(f"{number} {name}" for name, number in count.items()))


def compare(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]], as_json: bool) -> int:
    """Print two suites side by side; returns 1 if the second one kills fewer changes of a group, else 0."""
    worse = 0
    for group in GROUPS:
        both = [key for key, row in before.items() if row["group"] == group and key in after]
        killed = [{key for key in both if found[key]["outcome"] in KILLED} for found in (before, after)]
        worse |= len(killed[1]) < len(killed[0])
        lost, won = killed[0] - killed[1], killed[1] - killed[0]
        if as_json:
            told = {"before": len(killed[0]), "after": len(killed[1]), "lost": sorted(lost), "won": sorted(won)}
            print(json.dumps({"group": group, "changes": len(both), **told}))
            continue
        print(f"{group:<16} {len(both):>3} changes: {len(killed[0]):>3} killed before, {len(killed[1]):>3} after")
        for key in sorted(lost):
            print(f"    no more: {_line(before[key])}")
    return int(worse)


def main() -> int:
    """Run the tests on changed products, or compare two suites."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.guard.mutants")
    parser.add_argument("--map", type=Path, help="what tests.bench.guard.covering has made of this suite")
    parser.add_argument("--results", type=Path, metavar="FILE", help="what is known, and gets a line for each change")
    parser.add_argument("--repository", type=Path, default=ROOT, metavar="DIR", help="where the suite is; this one")
    parser.add_argument("--revision", default="HEAD", help="of the suite")
    parser.add_argument("--product", metavar="REVISION", help="of the product, if it is another")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS), metavar="GROUP", help="of modules")
    parser.add_argument("--count", type=int, default=COUNT, help="of each group; 8 are among 25")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="of the changes, the K-th of each N")
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="SECONDS", help="for each change; 45")
    parser.add_argument("--again", action="store_true", help="try those anew that had survived")
    parser.add_argument("--survivors-of", type=Path, metavar="FILE", help="only the changes that survived there")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="keep the scratch tree here, for the next time")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), help="two files of results")
    parser.add_argument("--json", action="store_true", help="print a JSON object per change and group")
    options = parser.parse_args()
    if options.compare:
        return compare(rows(options.compare[0]), rows(options.compare[1]), options.json)
    if options.map is None or options.results is None:
        parser.error("--map and --results are needed")
    end_on_signals()
    map_, known = read_map(options.map), rows(options.results)
    part, parts = map(int, options.part.split("/"))
    others = rows(options.survivors_of) if options.survivors_of else None
    with tempfile.TemporaryDirectory(prefix="guard-") as folder:
        place = (options.scratch or Path(folder)).absolute()
        scratch = Scratch(place, options.repository, options.revision, options.product)
        for number, (group, mutant) in enumerate(_all(scratch.root, options.only, options.count)):
            before = known.get(mutant.key)
            is_done = before is not None and before["outcome"] != UNSURE
            is_done = is_done and not (before is not None and options.again and before["outcome"] not in KILLED)
            if is_done or number % parts != part - 1:
                continue
            if others is not None and others.get(mutant.key, {"outcome": KILLED[0]})["outcome"] in KILLED:
                continue
            row = {"key": mutant.key, "group": group, "module": mutant.module, "line": mutant.line}
            row |= {"kind": mutant.kind, "before": mutant.before, "after": mutant.after}
            row |= judge(scratch, mutant, map_, options.budget)
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row) if options.json else _line(row), flush=True)
    summary(rows(options.results), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
