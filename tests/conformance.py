"""The official conformance suite against a server of the official SDK, directly and through the recorder.

    python -m tests.conformance [--node PROGRAM] [--public]

The suite is installed from npm, in a fixed version, into a temporary directory. Every check must have the same result
both ways; whether the server passes it does not matter. It needs Node 22 or newer, and npm. Prints what `check` finds
in the traffic, except notes; many scenarios send invalid messages on purpose. `--public` compares the login scenarios
of a client instead, through `serve --public`: see `conformance_logins`.
Exit code: 0; 1 if a verdict differs, or hardly any check passes; 2 if the suite cannot be fetched.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from captures.integrity import inspect
from captures.reader import Capture
from tests.conformance_logins import Verdicts, add_verdicts, compare_logins, passed_and_failed
from tests.harness import ROOT, Place
from tests.http_harness import serving
from tests.zoo.findings import Finding, checked

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
"""Alphas of 0.2 are the first versions that know 2026-07-28."""
NODE = 22
REVISIONS = ("2025-11-25", "2026-07-28")
OURS = frozenset({"dns-rebinding-protection"})
"""Scenarios that the recorder answers itself, so that it may pass where the server does not."""
MIN_PASSED = 50
"""Checks of a revision. If no more pass without the recorder, the suite has not really run, and the result is 1."""
FETCH_S = 120.0
SUITE_S = 300.0


class Unavailable(Exception):
    """The suite cannot be run here; the text says why."""


def fetch(node: str, into: Path) -> list[str]:
    """Install the suite; returns the command that runs it.

    Args:
        node: the program.
        into: the folder in which to install it.

    Raises:
        Unavailable: no Node, too old a Node, no npm, or no registry.
    """
    program, npm = shutil.which(node), shutil.which("npm")
    if program is None or npm is None:
        raise Unavailable(f"{'npm' if program else node} is not installed")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    if not (found := re.match(r"v(\d+)\.", version)) or int(found[1]) < NODE:
        raise Unavailable(f"{program} is {version or 'no Node'}, and the suite takes {NODE} or newer")
    options = ["--prefix", str(into), "--cache", str(into / "cache"), "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        command = [npm, "install", *options, f"{PACKAGE}@{VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=into, timeout=FETCH_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"npm did not fetch {PACKAGE} within {FETCH_S:.0f} s") from None
    if done.returncode:
        raise Unavailable(f"npm cannot fetch {PACKAGE}@{VERSION}: {done.stderr[-300:].strip()}")
    package = into / "node_modules" / PACKAGE
    return [program, str(package / json.loads((package / "package.json").read_text())["bin"]["conformance"])]


@contextmanager
def serve(place: Place) -> Iterator[str]:
    """Run a fresh server; yields its URL."""
    session = place.start([sys.executable, "-m", "tests.peers.conformance_server"], direct=True, cwd=ROOT)
    try:
        url = session.line().decode().strip()
        assert url, session.errors().decode()
        yield url
    finally:
        session.process.send_signal(signal.SIGTERM)
        session.end()


def judge(suite: list[str], url: str, revision: str, results: Path) -> Verdicts:
    """The suite's verdicts on the server at `url`."""
    command = [*suite, "server", "--url", url, "--suite", "all", "--spec-version", revision, "-o", str(results)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SUITE_S, check=False)
    verdicts: Verdicts = {}
    for path in sorted(results.glob("*/checks.json")):
        # server-SCENARIO-TIME
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name)
        add_verdicts(verdicts, scenario, path)
    if not verdicts:
        raise Unavailable(f"the suite came to no verdict: {(done.stdout + done.stderr)[-500:]}")
    return verdicts


def compare(place: Place, suite: list[str], revision: str) -> tuple[Verdicts, Verdicts, list[Finding]]:
    """Returns the verdicts on a server, directly and through the recorder, and the findings in the complete capture."""
    with serve(place) as url:
        direct = judge(suite, url, revision, place.root / f"direct-{revision}")
    with serve(place) as url, serving(place, url) as recorder:
        recorded = judge(suite, recorder.url, revision, place.root / f"recorded-{revision}")
    assert inspect(Capture(recorder.capture)).state == "complete"
    return direct, recorded, checked(place, recorder.capture)


def differences(direct: Verdicts, recorded: Verdicts) -> list[str]:
    """The verdicts that differ through the recorder, one line each."""
    found = []
    for key in sorted(direct.keys() | recorded.keys()):
        scenario, check, _ = key
        before, after = direct.get(key, "missing"), recorded.get(key, "missing")
        allowed = {before, "SUCCESS"} if scenario in OURS else {before}
        if after not in allowed:
            found.append(f"{scenario}: {check}: {before} directly, {after} through the recorder")
    return found


def summed(findings: list[Finding]) -> Counter[tuple[str, str, str]]:
    """The number of findings above note, by rule, blame and text without numbers."""
    return Counter((one.rule, one.blames, re.sub(r"\d+", "N", one.message)) for one in findings if one.level != "note")


def report(what: str, direct: Verdicts, recorded: Verdicts, findings: list[Finding]) -> list[str]:
    """Print the results of one comparison; returns what is wrong with it."""
    scenarios = len({scenario for scenario, _, _ in direct})
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(Counter(direct.values()).items()))
    different = differences(direct, recorded)
    print(f"{what}: {scenarios} scenarios, {len(direct)} checks ({statuses}), {len(different)} different")
    if sum(status == "SUCCESS" for status in direct.values()) <= MIN_PASSED:
        different.append(f"{what}: no more than {MIN_PASSED} checks passed: the suite has not run")
    for (rule, blames, text), count in sorted(summed(findings).items()):
        print(f"  {rule} ({blames}) ×{count}: {text[:120]}")
    return different


def main() -> int:
    """Run the suite both ways, and print the results."""
    parser = argparse.ArgumentParser(description="Compare the conformance suite's verdicts with and without serve.")
    parser.add_argument("--node", default="node", help="the program (default: node)")
    parser.add_argument("--public", action="store_true", help="compare the logins of a client through serve --public")
    options = parser.parse_args()
    node: str = options.node
    different: list[str] = []
    with tempfile.TemporaryDirectory() as root:
        place = Place(Path(root))
        try:
            suite = fetch(node, place.root)
            if options.public:
                direct, recorded, captures = compare_logins(place, suite)
                different += report("logins", direct, recorded, checked(place, *captures))
                for how, verdicts in (("directly", direct), ("through the recorder", recorded)):
                    passed, failed = passed_and_failed(verdicts)
                    print(f"{how}, {len(passed)} pass: {', '.join(passed)}; {len(failed)} fail: {', '.join(failed)}")
            else:
                for revision in REVISIONS:
                    different += report(revision, *compare(place, suite, revision))
        except Unavailable as why:
            print(f"the conformance suite cannot be run: {why}", file=sys.stderr)
            return 2
        finally:
            place.clear()
    for line in different:
        print(line)
    print(f"conformance: {len(different)} checks come out differently through the recorder")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
