"""Which test executes which line of some modules, and what each test costs: one run of the suite, under coverage.py.

    python -m tests.bench.guard.covering --to MAP [--repository DIR] [--revision REVISION] [--product REVISION]
                                         [--workers N] [--scratch DIR] [--tests TEST ...] [--marks EXPRESSION]
                                         [--more]

Commands that a test starts count for it, including those forked from a process of `tests/warm.py` and the program's
workers. What a shared fixture executes counts for each test that uses it. Coverage.py comes from PyPI, into the folder
of the scratch tree. `--more` adds to a map what other tests execute. The map is a JSON file for
`tests.bench.guard.mutants`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bench.guard.scratch import ROOT, Scratch, end_on_signals

GROUPS: Final = {
    "pump": ("mcpproxy/relay/pump.py",),
    "journal": ("captures/journal.py",),
    "writer": ("captures/writer.py",),
    "envelope": ("captures/envelope.py",),
    "fold": ("analysis/conversation/fold.py",),
    "calls": ("analysis/conversation/call.py", "analysis/conversation/call_table.py"),
    "checker": ("analysis/checking/checker.py",),
    "rules of errors": ("analysis/rules/error/*.py",),
    "rules of HTTP": ("analysis/rules/http/*.py",),
    "load": ("analysis/store/load.py",),
    "redaction": ("captures/redact.py",),
    "documents": ("mcpproxy/clients/documents/*.py",),
}
"""The modules that are changed, in groups of equal weight."""
_BARE: Final = ('"-I", "-S", "-X"', '"-I", "-X"')
"""How the program starts its workers; without `-S` they load the tracer."""


class Test(NamedTuple):
    """What a test costs by itself, its shared fixtures included."""

    processor_s: float
    wall_s: float
    failed: bool


class Map(NamedTuple):
    """Which tests execute which lines."""

    tests: dict[str, Test]
    lines: dict[str, dict[int, set[str]]]
    """For each module, the tests of each line."""


def modules(root: Path, group: str) -> list[str]:
    """The paths of the modules of a group."""
    return [str(file.relative_to(root)) for pattern in GROUPS[group] for file in sorted(root.glob(pattern))]


def record(scratch: Scratch, workers: int, tests: list[str], marks: str) -> Map:
    """Run the suite; returns which tests execute which lines."""
    packages, folder = scratch.folder / "packages", scratch.folder / "traces"
    if not (packages / "coverage").exists():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        subprocess.run([*pip, "--target", str(packages), "coverage"], check=True)
    for left in folder.glob("*") if folder.exists() else ():
        left.unlink()
    folder.mkdir(exist_ok=True)
    include = [str(scratch.root / path) for group in GROUPS for path in modules(scratch.root, group)]
    settings = {"folder": str(folder), "include": include}
    (scratch.site / "guard_traced.json").write_text(json.dumps(settings), "utf-8")
    (scratch.site / "more.pth").write_text(f"{packages}\n")
    start = scratch.site / "zz_guard.pth"  # .pth files are read in the order of their names
    start.write_text("import guard_traced\n")
    try:
        child = "analysis/child_process.py"
        text = (scratch.root / child).read_text("utf-8")
        assert _BARE[0] in text, f"{child} starts its workers in another way; mend _BARE"
        with scratch.changed({child: text.replace(*_BARE)}):
            began = time.monotonic()
            how = ("-n", str(workers), "--dist", "worksteal", "-m", marks)
            run = scratch.run(tests, options=how, test_s=900.0, whole_s=3 * 3600)
            print(f"{run.processor_s:.0f} s of processor, {time.monotonic() - began:.0f} s", file=sys.stderr)
            print("\n".join(run.output.splitlines()[-40:]), file=sys.stderr)
    finally:
        start.unlink()
    return _merged(scratch.root, scratch.folder / "report", folder)


def _merged(root: Path, report: Path, traces: Path) -> Map:
    rows: list[dict[str, Any]] = [
        json.loads(line) for file in report.glob("*.jsonl") for line in file.read_text("utf-8").splitlines()
    ]
    fixtures: dict[str, float] = defaultdict(float)
    users: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if "fixture" in row:
            fixtures[row["fixture"]] = max(fixtures[row["fixture"]], row["processor_s"])
    tests: dict[str, Test] = {}
    shared: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if "wall_s" in row:
            before = tests.get(row["test"], Test(0.0, 0.0, False))
            failed = before.failed or row["failed"] is not None
            tests[row["test"]] = Test(before.processor_s + row["processor_s"], before.wall_s + row["wall_s"], failed)
            shared[row["test"]] |= set(row["shared"])
    for name, test in tests.items():
        more = sum(fixtures[fixture] for fixture in shared[name])
        tests[name] = Test(test.processor_s + more, test.wall_s + more, test.failed)
        for fixture in shared[name]:
            users[fixture].add(name)
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file in traces.glob("*.json"):
        for context, executed in json.loads(file.read_text("utf-8")).items():
            names = users.get(context, {context} & tests.keys())
            for path, numbers in executed.items():
                for number in numbers if names else ():
                    lines[str(Path(path).relative_to(root))][number] |= names
    return Map(tests, lines)


def joined(before: Map, more: Map) -> Map:
    """The union of two maps; for tests that are in both, `more` wins."""
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for map_, gone in ((before, more.tests.keys()), (more, set[str]())):
        for path, numbers in map_.lines.items():
            for number, names in numbers.items():
                lines[path][number] |= names - gone
    return Map(before.tests | more.tests, lines)


def write(map_: Map, to: Path) -> None:
    """Write a map."""
    number = {name: at for at, name in enumerate(map_.tests)}
    lines = {
        path: {str(line): sorted(number[name] for name in names) for line, names in sorted(numbers.items())}
        for path, numbers in map_.lines.items()
    }
    to.write_text(json.dumps({"tests": {name: list(test) for name, test in map_.tests.items()}, "lines": lines}))


def read(from_: Path) -> Map:
    """Read a map."""
    told = json.loads(from_.read_text("utf-8"))
    names = list(told["tests"])
    lines = {
        path: {int(line): {names[at] for at in found} for line, found in numbers.items()}
        for path, numbers in told["lines"].items()
    }
    return Map({name: Test(*test) for name, test in told["tests"].items()}, lines)


def main() -> int:
    """Make a map."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.guard.covering")
    parser.add_argument("--to", type=Path, required=True, metavar="MAP", help="the file to write")
    parser.add_argument("--repository", type=Path, default=ROOT, metavar="DIR", help="where the suite is; this one")
    parser.add_argument("--revision", default="HEAD", help="of the suite")
    parser.add_argument("--product", metavar="REVISION", help="of the product, if it is another")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes of pytest; 2")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="keep the scratch tree here, for the next time")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="only these")
    parser.add_argument("--marks", default="not soak and not hosts", help="only tests with these marks")
    parser.add_argument("--more", action="store_true", help="keep what the map has of other tests")
    options = parser.parse_args()
    end_on_signals()
    with tempfile.TemporaryDirectory(prefix="guard-") as folder:
        place = (options.scratch or Path(folder)).absolute()
        scratch = Scratch(place, options.repository, options.revision, options.product)
        map_ = record(scratch, options.workers, options.tests, options.marks)
        if options.more:
            map_ = joined(read(options.to), map_)
        write(map_, options.to)
    failed = sorted(name for name, test in map_.tests.items() if test.failed)
    print(f"{len(map_.tests)} tests, of which {len(failed)} failed: {' '.join(failed)}")
    for group in GROUPS:
        found = {path: map_.lines[path] for path in map_.lines if any(Path(path).match(each) for each in GROUPS[group])}
        names = {name for lines in found.values() for tests in lines.values() for name in tests}
        print(f"{group:<16} {sum(map(len, found.values())):>5} lines by {len(names):>5} tests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
