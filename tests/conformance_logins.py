"""The client's login scenarios (`auth/…`) of the official conformance suite, directly and through `serve --public`.

The suite starts the servers of a scenario itself, each on a free port, and gives our client their address. With
`public_front.cjs`, it is `serve` that listens on that port, and the suite's server listens on a Unix socket behind it.
Neither the suite nor the client is changed, and both use the address that the suite prints. So whatever depends on the
address of a server, such as its issuer, the resource of a token or the URL in a DPoP proof, has to fit through the
recorder as it does directly.
"""

import json
import re
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

from captures.integrity import inspect
from captures.reader import Capture
from tests.harness import ROOT, Place, wait_until

FRONT = ROOT / "tests/peers/public_front.cjs"
CLIENT = f"{sys.executable} -m tests.peers.conformance_client"
RECORDER = [sys.executable, "-P", "-m", "mcpproxy"]
CLIENT_MS = 120_000
SCENARIO_S = 300.0

END = "end of the suite"

Verdicts = dict[tuple[str, str, int], str]
"""Scenario, check, and number among the checks of that name → status."""


def add_verdicts(verdicts: Verdicts, scenario: str, checks: Path) -> None:
    """Read the checks of a scenario from the file that the suite has written."""
    seen: Counter[str] = Counter()
    for check in json.loads(checks.read_text()):
        verdicts[scenario, check["id"], seen[check["id"]]] = check["status"]
        seen[check["id"]] += 1


def scenarios(suite: list[str]) -> list[tuple[str, str | None]]:
    """Returns the login scenarios that the suite lists, each with every revision that it has; None for an extension."""
    listed = subprocess.run([*suite, "list", "--client"], capture_output=True, text=True, check=False).stdout
    found: list[tuple[str, str | None]] = []
    for name, revisions in re.findall(r"^ *- (auth/\S+) \[(.*)\]$", listed, re.MULTILINE):
        found += [(name, revision if revision[0].isdigit() else None) for revision in revisions.split(",")]
    return found


def judge_login(place: Place, suite: list[str], scenario: str, revision: str | None, front: Path | None) -> Verdicts:
    """Run one scenario; returns its verdicts on our client, and how the suite ended.

    Args:
        place: where the suite writes its results.
        suite: the command that runs the suite.
        scenario: the name of the scenario.
        revision: the revision in which client and server talk; None for the one that the suite chooses.
        front: the directory for what `serve --public` records in front of the suite's servers; None for a direct run.
    """
    results = place.root / f"results-{uuid.uuid4()}"
    program, *rest = suite
    command = [program, *(["--require", str(FRONT)] if front else []), *rest, "client", "--command", CLIENT]
    command += ["--scenario", scenario, "--timeout", str(CLIENT_MS), "-o", str(results)]
    command += ["--spec-version", revision] if revision else []
    surroundings = dict(place.environment)
    if front:
        surroundings["MCPPROXY_FRONT"] = json.dumps({"command": RECORDER, "captures": str(front)})
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=surroundings, timeout=SCENARIO_S, check=False
    )
    name = f"{scenario} {revision or 'extension'}"
    verdicts: Verdicts = {(name, END, 0): f"exit status {done.returncode}"}
    for checks in results.rglob("checks.json"):
        add_verdicts(verdicts, name, checks)
    if len(verdicts) == 1:
        raise RuntimeError(f"{name}: the suite came to no verdict: {(done.stdout + done.stderr)[-500:]}")
    return verdicts


def compare_logins(place: Place, suite: list[str]) -> tuple[Verdicts, Verdicts, list[Path]]:
    """Returns the verdicts of all login scenarios, directly and through the recorder, and the captures."""
    front = place.root / "logins"
    front.mkdir(mode=0o700)
    direct: Verdicts = {}
    recorded: Verdicts = {}
    for scenario, revision in scenarios(suite):
        direct |= judge_login(place, suite, scenario, revision, None)
        recorded |= judge_login(place, suite, scenario, revision, front)
    captures = sorted(front.glob("*.mcpcap"))
    for capture in captures:
        # The suite ends its servers, and does not wait for the recorder in front of them.
        wait_until(lambda: inspect(Capture(capture)).state == "complete", f"{capture.name} to be complete")  # noqa: B023
    return direct, recorded, captures


def passed_and_failed(verdicts: Verdicts) -> tuple[list[str], list[str]]:
    """Returns the names of the scenarios that the client passes, and of those that it fails, each with the revision."""
    ends = {scenario: status for (scenario, check, _), status in verdicts.items() if check == END}
    passed = sorted(scenario for scenario, status in ends.items() if status == "exit status 0")
    return passed, sorted(ends.keys() - set(passed))
