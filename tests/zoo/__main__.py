"""Drive real servers and clients directly and through the recorder, and compare.

    python -m tests.zoo [--only NAME]... [--hosts all] [--findings]

An animal is a server or a client. Packages are downloaded from PyPI and npm once; after that, every started program can
only reach loopback. Prints a line for each animal, then what recording changed, the findings of `check` that are not
judged yet, and the animals that could not be installed or started.
Exit code: 0, or 1 if recording changed something or the findings are not those of findings.toml.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.zoo import rows
from tests.zoo.alone import leave_the_network
from tests.zoo.findings import Reviewed, gone, reviewed, unreviewed
from tests.zoo.install import Unavailable, installed, node
from tests.zoo.rows import Animal, Registry
from tests.zoo.visit import Visit, WillNotStart, visit_client, visit_server

AT_ONCE = 2
HEADER = f"{'animal':24}{'capture':9}{'traffic':9}{'exit':6}{'stderr':8}{'frames':>6}{'findings':>10}{'seconds':>9}"


def fetch(animals: Sequence[Animal]) -> dict[str, str]:
    """Install what the animals need; returns name → reason for each animal that cannot be installed."""
    reasons: dict[tuple[str, tuple[str, ...]], str] = {}
    try:
        node()
    except Unavailable as why:
        return dict.fromkeys((animal.name for animal in animals), f"Node {why}")

    def one(wanted: tuple[Registry, tuple[str, ...]]) -> None:
        try:
            installed(*wanted)
        except Unavailable as why:
            reasons[wanted] = str(why)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, dict.fromkeys((animal.registry, animal.packages) for animal in animals)))
    wanted = {animal.name: reasons.get((animal.registry, animal.packages)) for animal in animals}
    return {name: why for name, why in wanted.items() if why is not None}


def line_of(visit: Visit) -> str:
    """The table row for an animal."""
    same = ["same" if visit.is_same(part) else "DIFFERS" for part in ("traffic", "exit", "stderr")]
    whole = ("whole" if visit.closed else "killed") if visit.kept else "LACKS"
    name, count = visit.animal.name, len(visit.findings)
    return f"{name:24}{whole:9}{same[0]:9}{same[1]:6}{same[2]:8}{visit.frames:6}{count:10}{visit.seconds:9.0f}"


def complaints(visit: Visit, known: Reviewed) -> list[str]:
    """What is wrong with a visit, one line each."""
    name = visit.animal.name
    told = [] if visit.kept else [f"{name}: the capture is damaged, or holds other bytes than were sent and received"]
    told += [f"{name}: {part}: {how}" for part, how in visit.different.items()]
    told += [f"{name}: {what}" for what in visit.otherwise]
    told += [f"{name}: {rule} is not judged in findings.toml" for rule in unreviewed(name, visit.findings, known)]
    return told + [f"{name}: {rule} is judged right, but not reported" for rule in gone(name, visit.findings, known)]


def tell_findings(visits: Sequence[Visit], known: Reviewed) -> None:
    """Print every finding with its judgement; equal findings once, with a count."""
    for visit in visits:
        for finding, count in sorted(Counter(visit.findings).items(), key=lambda pair: (pair[0].rule, pair[0].message)):
            judged = known.get((visit.animal.name, finding.rule)) or known.get(("*", finding.rule))
            verdict = "not judged" if judged is None else f"{'right' if judged.right else 'WRONG'}: {judged.why}"
            print(f"{visit.animal.name}: {finding.level} {finding.rule} ×{count}: {finding.message[:160]} [{verdict}]")


def tell_mended(visits: Sequence[Visit], known: Reviewed) -> None:
    """Print the rules whose findings were judged wrong and are no longer reported."""
    for visit in visits:
        for rule in gone(visit.animal.name, visit.findings, known, right=False):
            print(f"{visit.animal.name}: {rule} was wrong, and is no longer reported: remove it from findings.toml")


def chosen(animals: Sequence[Animal], options: argparse.Namespace) -> list[Animal]:
    """The animals to visit: the named ones, else all but the slow ones, or all with `--hosts all`."""
    if options.only:
        return [animal for animal in animals if animal.name in options.only]
    return [animal for animal in animals if options.hosts == "all" or not animal.slow]


def main() -> int:
    """Visit every animal and prints the results."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.zoo", description=__doc__.partition("\n")[0] if __doc__ else None
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this animal; may be repeated")
    parser.add_argument("--hosts", choices=["quick", "all"], default="quick", help="all includes the slow ones")
    parser.add_argument("--findings", action="store_true", help="print every finding with its judgement")
    options = parser.parse_args()
    servers, clients = rows.read("server"), rows.read("client")
    if unknown := sorted({*options.only} - {animal.name for animal in servers + clients}):
        parser.error(f"no animal is called {', '.join(unknown)}")
    animals = chosen(servers + clients, options)
    began = time.monotonic()
    missing = fetch(animals)
    print(f"fetched in {time.monotonic() - began:.0f} s")
    if why_not := leave_the_network():
        print(f"warning: what is started can reach the network: {why_not}")
    known = reviewed()
    visits: list[Visit] = []
    broken: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as root:

        def one(animal: Animal) -> Visit | None:
            if animal.name in missing:
                return None
            try:
                return (visit_server if animal in servers else visit_client)(animal, Path(root) / animal.name)
            except WillNotStart as why:
                missing[animal.name] = str(why)
            except (AssertionError, OSError, subprocess.SubprocessError) as why:
                broken.append(f"{animal.name}: the visit failed: {type(why).__name__}: {why}")
            return None

        print(HEADER)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for visit in pool.map(one, animals):
                if visit is not None:
                    visits.append(visit)
                    print(line_of(visit), flush=True)
    if options.findings:
        tell_findings(visits, known)
    tell_mended(visits, known)
    for name, reason in sorted(missing.items()):
        print(f"not visited: {name}: {reason}")
    told = broken + [line for visit in visits for line in complaints(visit, known)]
    for line in told:
        print(line)
    count = len(visits)
    print(f"{count} animals in {time.monotonic() - began:.0f} s, {len(missing)} not visited, {len(told)} problems")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
