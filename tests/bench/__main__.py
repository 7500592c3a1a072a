"""What recording costs: a table of `mcpproxy run`, a direct run and a C relay, with the budget of each figure.

    python -m tests.bench [--json] [--quick] [--giant] [--rounds N] [--dir DIR]

It informs, and exits with 0 whether the budgets are met or not. It exits with 1 if a figure could not be measured,
above all if a capture does not hold as many frames as crossed.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.build import tools
from tests.bench.run import MIB, Cores, MiscountError, Plan, Samples, measure

QUICK: Final = Plan(rounds=3, pings=2_000, flood=20_000, starts=15, giant=16 * MIB)

BUSY: Final = 0.3
"""Load per core from which figures cannot be trusted."""


class Row(NamedTuple):
    """One figure of the three subjects, and the value that is compared with a budget."""

    what: str
    unit: str
    direct: float
    relay: float
    run: float
    value: float
    """What the budget limits."""
    sign: str
    """How `value` is shown: its unit, or what it is relative to."""
    budget: float | None
    """The budget; None for a figure without one."""
    at_most: bool = True
    """Whether the budget is an upper bound."""

    @property
    def met(self) -> bool | None:
        """Whether the budget is met; None if the value was not measured or has no budget."""
        if self.budget is None or math.isnan(self.value):
            return None
        return self.value <= self.budget if self.at_most else self.value >= self.budget


def rows(samples: Samples, plan: Plan) -> list[Row]:
    """The table of `run`, with its budgets."""
    giant = f"memory, {plan.giant // MIB} MiB frames"
    return [
        _against_relay(samples, "round trip p50", "ping", "p50_ns", 1e3, 1.8),
        _against_relay(samples, "round trip p99", "ping", "p99_ns", 1e3, 2.5),
        _flood_ratio(samples),
        _flood_rate(samples),
        _start(samples),
        _interpreter(samples),
        _memory(samples, "memory, ping-pong", "ping", 30),
        _memory(samples, "memory, flood", "flood", 150),
        _memory(samples, giant, "giant", 150),
        _guard(samples),
    ]


def _three(samples: Samples, kind: str, figure: str, scale: float) -> tuple[float, float, float]:
    direct, relay, run = (samples.median(kind, name, figure) / scale for name in ("direct", "relay", "run"))
    return direct, relay, run


def _against_relay(samples: Samples, what: str, kind: str, figure: str, scale: float, budget: float) -> Row:
    direct, relay, run = _three(samples, kind, figure, scale)
    return Row(what, "µs", direct, relay, run, run / relay, "× relay", budget)


def _flood_ratio(samples: Samples) -> Row:
    direct, relay, run = _three(samples, "flood", "per_s", 1)
    return Row("flood", "/s", direct, relay, run, run / relay, "× relay", 0.15, at_most=False)


def _flood_rate(samples: Samples) -> Row:
    direct, relay, run = _three(samples, "flood", "per_s", 1)
    return Row("flood, absolute", "/s", direct, relay, run, run, "/s", 40_000, at_most=False)


def _start(samples: Samples) -> Row:
    direct, relay, run = _three(samples, "start", "start_ns", 1e6)
    return Row("start to first answer", "ms", direct, relay, run, run - direct, "ms added", 50)


def _interpreter(samples: Samples) -> Row:
    alone = samples.median("start", "python", "start_ns") / 1e6
    return Row("  python -c pass alone", "ms", math.nan, math.nan, alone, math.nan, "", None)


def _memory(samples: Samples, what: str, kind: str, budget: float) -> Row:
    direct, relay, run = _three(samples, kind, "peak_kib", 1024)
    return Row(what, "MiB", direct, relay, run, run, "MiB", budget)


def _guard(samples: Samples) -> Row:
    guard = samples.median("ping", "run", "guard_kib") / 1024
    return Row("  the guard's own pages", "MiB", math.nan, math.nan, guard, math.nan, "", None)


def table(found: list[Row]) -> str:
    """The rows as text, about 80 columns wide."""
    lines = [f"{'':<25}{'direct':>9}{'relay':>9}{'run':>9}{'':<22}budget"]
    verdicts = {True: "met", False: "MISSED", None: ""}
    for row in found:
        figures = "".join(f"{_number(figure):>9}" for figure in (row.direct, row.relay, row.run))
        against = "" if row.budget is None else f"{_number(row.value)} {row.sign}"
        bound = "" if row.budget is None else f"{'≤' if row.at_most else '≥'} {_number(row.budget)} {verdicts[row.met]}"
        lines.append(f"{row.what:<25}{figures} {row.unit:<4} {against:<16}{bound}".rstrip())
    return "\n".join(lines)


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def report(found: list[Row], samples: Samples, plan: Plan, note: str) -> str:
    """Everything as one JSON object: the rows, and the samples that they come from."""
    machine = {
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "tools": note,
    }
    shown = [{**row._asdict(), "met": row.met} for row in found]
    whole = {"machine": machine, "plan": plan._asdict(), "rows": shown, "samples": samples._asdict()}
    return json.dumps(_without_nan(whole), indent=1, ensure_ascii=False)


def _without_nan(value: object) -> object:
    """JSON has no NaN: what was not measured is null."""
    if isinstance(value, dict):
        return {name: _without_nan(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_without_nan(member) for member in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object with every sample")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: less to be trusted, done in half a minute")
    parser.add_argument("--giant", action="store_true", help="the giant frames are of 1 GiB, not of 64 MiB")
    parser.add_argument("--rounds", type=int, help="how many rounds the medians are over")
    parser.add_argument("--free", action="store_true", help="let the scheduler place the processes of round trips too")
    parser.add_argument("--dir", type=Path, help="where the captures go; the disk is part of what is measured")
    options = parser.parse_args(argv)
    plan = QUICK if options.quick else Plan()
    plan = plan._replace(rounds=options.rounds or plan.rounds, giant=1024 * MIB if options.giant else plan.giant)
    built = tools()
    cores = Cores() if options.free else Cores.apart()
    busy = os.getloadavg()[0]
    if busy > BUSY * (os.cpu_count() or 1):
        _say(f"something else runs here (load {busy:.1f}): the ratios are noisy, the absolute figures too high")
    try:
        samples = measure(built, plan, options.dir, _say, cores)
    except (MiscountError, RuntimeError, subprocess.SubprocessError) as error:
        _say(str(error))
        return 1
    found = rows(samples, plan)
    print(
        report(found, samples, plan, built.note) if options.json else f"{table(found)}\n\n{built.note}{_placed(cores)}"
    )
    return 0


def _placed(cores: Cores) -> str:
    return (
        "; client and server on one processor, relay and run on another" if cores.peers else "; placed by the scheduler"
    )


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
