"""Play captures again and count how many conversations are equal under the normaliser.

    python -m tests.playback_proof engine|replay [--every N] [--only WORD] [--workers N] [--details FILE] [FOLDER ...]

`engine` plays each conversation to its own client inside the process. `replay` runs `mcpproxy replay CAPTURE` against
`mcpproxy mock CAPTURE`, two programs as a user would start them, and compares the new capture with the old. Without a
FOLDER of captures, the corpus is played: all of its traces, captures and comparisons. It informs, and exits with 0.
"""

import argparse
import json
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tests.playback_proof.equality import compared, reason_of
from tests.playback_proof.sources import Source, captures_below, captures_of_corpus, comparisons, traces


class Result(NamedTuple):
    """What became of one capture."""

    source: Source
    reason: str
    """Why the conversations differ, in short; empty if they are equal."""
    is_exact: bool
    """Whether the same messages came in the same order."""
    details: tuple[str, ...]
    seconds: float


def by_engine(source: Source) -> Result:
    """Play one capture in this process."""
    from tests.playback_proof.engine import play

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            played = play(source.path, Path(folder))
            verdict = compared(played.old, played.new)
            same = not played.missing and not played.extra
            reason = reason_of(verdict)
            if verdict.failures and same and not verdict.changes:
                reason = ""  # nothing that could be compared, and the same messages
            elif not reason and not same:
                reason = "(equal under the normaliser, other messages)"
            told = (
                *verdict.sentences,
                *verdict.failures,
                *(f"missing {raw[:300]!r}" for raw in played.missing[:5]),
                *(f"extra {raw[:300]!r}" for raw in played.extra[:5]),
            )
            exact = played.is_exact
        except Exception as error:  # noqa: BLE001 -- a fault of the product is a row of the table
            reason, told, exact = f"{type(error).__name__}: {str(error)[:60]}", (repr(error)[:2000],), False
    return Result(source, reason, exact, told, time.monotonic() - began)


def by_replay(source: Source) -> Result:
    """Play one capture with the programs."""
    from tests.playback_proof.programs import replay

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            reason, told = replay(source.path, Path(folder))
        except Exception as error:  # noqa: BLE001 -- a fault of the product is a row of the table
            reason, told = f"{type(error).__name__}: {str(error)[:60]}", (repr(error)[:2000],)
    return Result(source, reason, not reason, told, time.monotonic() - began)


def main() -> None:
    """Play, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=("engine", "replay"))
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--details", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.folders:
            found = chain.from_iterable(map(captures_below, options.folders))
        else:
            found = chain(captures_of_corpus(), comparisons(folder, options.every), traces(folder, options.every))
        sources = [source for source in found if options.only in f"{source.group} {source.name}"]
        with ProcessPoolExecutor(options.workers) as pool:
            results = []
            for result in pool.map(by_engine if options.way == "engine" else by_replay, sources, chunksize=2):
                results.append(result)
                if options.way == "replay":
                    print(result.source.name, result.reason or "equal", f"{result.seconds:.1f} s", flush=True)
    report(results)
    print(f"{time.monotonic() - began:.0f} s")
    if options.details:
        with options.details.open("w", encoding="utf-8") as lines:
            for result in results:
                if result.reason or not result.is_exact:
                    line = [result.source.group, result.source.name, result.reason, result.is_exact, result.details]
                    lines.write(json.dumps(line) + "\n")


def report(results: list[Result]) -> None:
    """Print how many conversations of each group are equal, and the reasons of the others."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[result.source.group].append(result)
    print(f"{'':24} {'played':>7} {'equal':>7} {'exact':>7}")
    for group, members in [*sorted(groups.items()), ("all", results)]:
        equal, exact = sum(not result.reason for result in members), sum(result.is_exact for result in members)
        print(f"{group:24} {len(members):7,} {equal:7,} {exact:7,}")
    reasons = Counter(result.reason for result in results if result.reason)
    for reason, count in reasons.most_common():
        example = next(result for result in results if result.reason == reason)
        print(f"{count:6,}  {reason}\n        such as {example.source.name}")


if __name__ == "__main__":
    main()
