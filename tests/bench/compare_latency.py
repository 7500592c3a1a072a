"""How often `compare` calls equal servers slower, and how often it finds a slower one: simulations and real servers.

    python -m tests.bench.compare_latency [--long] [--series NAME]… [--servers DIR [--across DIR]] [--json]

- Errors: both sides have times of the same kind. A comparison errs if it reports any change. The times vary so much
  that the smallest change that `compare` reports does not matter; with real times, it errs less.
- Power: the times of the new side are longer; how many calls are found to be slower.
- Recordings: each side consists of several recordings, and the usual time differs between recordings as much as
  between calls; how often equal servers are called different. One recording cannot know of such a difference.
- Alternatives: how often two methods that were rejected call one call of equal servers slower or faster.
- Cost: how much processor time the comparison of many calls takes.
- `--servers DIR`: the same work of real servers is recorded again and again in DIR, which takes minutes, and each
  recording is compared with the next one of the same server. What is in DIR is not recorded again. With `--across`,
  the recordings are compared with those of the same name in another folder, such as one of a busier hour.

`--long` simulates five times as many comparisons. Informs, and never fails for a figure.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

from analysis.comparison.change import AspectResult, Place
from analysis.comparison.latency.autocorrelation import autocorrelation
from analysis.comparison.latency.latency import LatencyAspect
from analysis.comparison.latency.latency_record import CallLatencies, LatencyKey, LatencyRecord, LatencySample
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.reading import Reading

Draw = Callable[[int, Random], list[float]]
"""Returns a series of a length, as logarithms in units of their spread."""

CALLS: Final = (1, 4, 40)
LENGTHS: Final = (5, 10, 30, 100, 1000)
SHIFTS: Final = (1.1, 1.2, 1.5, 2.0)
VALUES: Final = 400_000
"""How many values are drawn for each figure, at most."""
COMPARISONS: Final = 200
"""How many comparisons are simulated for each figure, at most."""
LONG: Final = 5
SPREAD: Final = 0.2
"""The spread of the times for power: one third of the calls differ by more than some 20 % from the median."""
REPETITIONS: Final = 400
"""How often the bootstrap resamples; Holm over forty calls would need ten thousand."""
_PLACE: Final = Place("simulated", 1, 0)
_ASPECT: Final = LatencyAspect()


def _correlated(correlation: float) -> Draw:
    def draw(length: int, random: Random) -> list[float]:
        state, series = random.gauss(0, 1), []
        for _ in range(length):
            series.append(state)
            state = correlation * state + math.sqrt(1 - correlation**2) * random.gauss(0, 1)
        return series

    return draw


def _heavy_tail(length: int, random: Random) -> list[float]:
    return [math.log(random.paretovariate(1)) for _ in range(length)]


def _drift(length: int, random: Random) -> list[float]:
    slope = random.choice((-2, 2))
    return [random.gauss(0, 1) + slope * (number / length - 0.5) for number in range(length)]


def _bursts(length: int, random: Random) -> list[float]:
    series, left = [], 0
    for _ in range(length):
        if not left and random.random() < 0.02:
            left = random.randint(3, 6)
        series.append(random.gauss(0, 0.2) + (3 if left else 0))
        left = max(0, left - 1)
    return series


def _periodic(length: int, random: Random) -> list[float]:
    first = random.randrange(10)
    return [random.gauss(0, 0.2) + (3 if (number + first) % 10 == 0 else 0) for number in range(length)]


def _coarse(length: int, random: Random) -> list[float]:
    return [float(round(random.gauss(0, 1))) for _ in range(length)]


SERIES: Final[dict[str, Draw]] = {
    "independent": _correlated(0),
    "correlation 0.5": _correlated(0.5),
    "correlation 0.9": _correlated(0.9),
    "heavy tail": _heavy_tail,
    "drift": _drift,
    "bursts": _bursts,
    "periodic": _periodic,
    "coarse clock": _coarse,
}


def errors(names: Sequence[str], times: int) -> Iterator[dict[str, Any]]:
    """Yields how many comparisons of equal sides report a change, by kind of series, length and number of calls."""
    for name in names:
        for calls in CALLS:
            for length in LENGTHS:
                count = max(20, min(COMPARISONS * times, VALUES * times // (2 * calls * length)))
                random = Random(f"{name} {calls} {length}")
                wrong = sum(
                    bool(_compared(SERIES[name], random, calls, length, 1e150, 15.0).changes) for _ in range(count)
                )
                yield {
                    "series": name,
                    "calls": calls,
                    "length": length,
                    "comparisons": count,
                    "wrong": wrong / count,
                    "at_most": _upper_limit(wrong, count),
                }


def powers(times: int) -> Iterator[dict[str, Any]]:
    """Yields how many slower calls are found, for each correlation, number of calls, length and shift."""
    for name in ("independent", "correlation 0.5"):
        for calls in (1, 10):
            for length in (10, 30, 100, 1000):
                count = max(4, min(COMPARISONS * times // 2, VALUES * times // (8 * calls * length)))
                for shift in SHIFTS:
                    random = Random(f"{name} {calls} {length} {shift}")
                    found = sum(
                        len(_compared(SERIES[name], random, calls, length, 1e8, SPREAD, shift).changes)
                        for _ in range(count)
                    )
                    yield {
                        "series": name,
                        "calls": calls,
                        "length": length,
                        "slower_by": round(shift - 1, 2),
                        "found": found / count / calls,
                        "of": count * calls,
                    }


def recordings(times: int) -> Iterator[dict[str, Any]]:
    """Yields how often sides of several recordings seem to differ, if the usual time differs between recordings."""
    for count in (1, 2, 5, 10):
        random, comparisons = Random(count), 100 * times
        draw, length = _several_recordings(count), 30 * count
        wrong = sum(bool(_compared(draw, random, 1, length, 1e150, 15.0).changes) for _ in range(comparisons))
        yield {"recordings": count, "length": length, "comparisons": comparisons, "wrong": wrong / comparisons}


def _several_recordings(count: int) -> Draw:
    def draw(length: int, random: Random) -> list[float]:
        series: list[float] = []
        for _ in range(count):
            usual = random.gauss(0, 1)
            series += [random.gauss(usual, 1) for _ in range(length // count)]
        return series

    return draw


def alternatives(times: int) -> Iterator[dict[str, Any]]:
    """Yields how often methods that were rejected err: values taken as independent, and a moving-block bootstrap."""
    for correlation in (0.0, 0.5, 0.9):
        for length in (10, 30, 100):
            random = Random(f"{correlation} {length}")
            draw, count = _correlated(correlation), 60 * times
            independent = bootstrap = 0
            for _ in range(count):
                old, new = ([int(1e9 * math.exp(value)) for value in draw(length, random)] for _ in range(2))
                independent += _differs_by_ranks(old, new)
                bootstrap += _differs_by_bootstrap(old, new, random)
            yield {
                "correlation": correlation,
                "length": length,
                "comparisons": count,
                "independent": independent / count,
                "bootstrap": bootstrap / count,
            }
    old, new = ([int(1e9 * math.exp(value)) for value in _correlated(0.5)(2_000, random)] for _ in range(2))
    began = time.perf_counter()
    _differs_by_bootstrap(old, new, random)
    yield {"bootstrap_of": 2_000, "repetitions": REPETITIONS, "seconds": time.perf_counter() - began}


def _differs_by_ranks(old: Sequence[int], new: Sequence[int]) -> bool:
    """Returns whether two samples of independent values differ (Mann and Whitney 1947, 5 %)."""
    count = len(old)
    wins = sum(after > before for before in old for after in new)
    deviation = math.sqrt(count * count * (2 * count + 1) / 12)
    return abs(wins - count * count / 2) > 1.96 * deviation


def _differs_by_bootstrap(old: Sequence[int], new: Sequence[int], random: Random) -> bool:
    """Returns whether the percentiles of resampled medians differ (5 %); blocks are as long as Carlstein 1986 says."""
    blocks = _block_length(old), _block_length(new)
    ratios = sorted(
        math.log(_resampled_median(new, blocks[1], random) / _resampled_median(old, blocks[0], random))
        for _ in range(REPETITIONS)
    )
    return ratios[int(REPETITIONS * 0.975)] < 0 or ratios[int(REPETITIONS * 0.025)] > 0


def _block_length(values: Sequence[int]) -> int:
    correlation = min(0.99, max(0.0, autocorrelation(values).neighbours))
    length: float = (2 * correlation / (1 - correlation**2)) ** (2 / 3) * len(values) ** (1 / 3)
    return min(len(values) // 2, max(1, round(length)))


def _resampled_median(values: Sequence[int], block: int, random: Random) -> int:
    count = len(values)
    resampled: list[int] = []
    while len(resampled) < count:
        begin = random.randrange(count - block + 1)
        resampled += values[begin : begin + block]
    return sorted(resampled[:count])[count // 2]


def costs() -> Iterator[dict[str, Any]]:
    """Yields how much processor time comparisons take."""
    for calls, length in ((50, 2_000), (1, 100_000), (1_000, 30)):
        random = Random(calls)
        old, new = (_record(SERIES["correlation 0.5"], random, calls, length, 1e8, SPREAD) for _ in range(2))
        began = time.process_time()
        _ASPECT.compare(old, new, CompareOptions())
        yield {"calls": calls, "length": length, "seconds": time.process_time() - began}


def equal_servers(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields how many comparisons of neighbouring recordings of the same server report a change."""
    from tests.bench.latency_recordings import record_all

    folder.mkdir(parents=True, exist_ok=True)
    for name, rounds, paths in record_all(folder):
        results = [_ASPECT.compare(old, new, CompareOptions()) for old, new in pairwise(map(_observed, paths))]
        yield {
            "server": name,
            "rounds": rounds,
            "comparisons": len(results),
            "alarms": sum(bool(result.changes) for result in results),
            "changes": [
                f"{change.subject}: {change.message}, {change.before} → {change.after}"
                for result in results
                for change in result.changes
            ],
            "rows": sum(len(result.latencies) for result in results),
            "cannot_tell": sum(row.verdict == "cannot tell" for result in results for row in result.latencies),
        }


def across(folder: Path, other: Path) -> Iterator[dict[str, Any]]:
    """Yields how many recordings of one folder differ from those with the same name in another one."""
    paths = [path for path in sorted(folder.glob("*-*.mcpcap")) if (other / path.name).exists()]
    for path in paths:
        result = _ASPECT.compare(_observed(path), _observed(other / path.name), CompareOptions())
        changes = [f"{change.subject}: {change.message}" for change in result.changes]
        yield {"recording": path.stem, "comparisons": len(paths), "alarms": int(bool(changes)), "changes": changes}


def _observed(path: Path) -> LatencyRecord:
    observer = _ASPECT.observer(ObserveOptions())
    reading = Reading(path)
    observer.begin(path.name, reading)
    for step in reading.to_end():
        for call in step.changed:
            if call.is_over or step.end is not None:
                observer.on_call(call)
    observer.end()
    return observer.observed()


def _compared(
    draw: Draw, random: Random, calls: int, length: int, scale: float, spread: float, shift: float = 1.0
) -> AspectResult:
    old = _record(draw, random, calls, length, scale, spread)
    new = _record(draw, random, calls, length, scale * shift, spread)
    return _ASPECT.compare(old, new, CompareOptions())


def _record(draw: Draw, random: Random, calls: int, length: int, scale: float, spread: float) -> LatencyRecord:
    """Returns simulated latencies, as the observer collects them."""
    collected = []
    for number in range(calls):
        times_ns = [int(scale * math.exp(spread * value)) for value in draw(length, random)]
        if length > 10_000:
            sample = LatencySample()
            for position, time_ns in enumerate(times_ns):
                sample.add(position, time_ns)
            times_ns = sample.in_order()
        key = LatencyKey("client", "tools/call", str(number), is_first=False)
        collected.append(CallLatencies(key, length, times_ns, _PLACE))
    return LatencyRecord(collected, 0, 0)


def _upper_limit(wrong: int, count: int) -> float:
    """Returns the upper limit of a probability, with 97.5 % confidence (Wilson)."""
    z, share = 1.96, wrong / count
    middle = share + z * z / (2 * count)
    return (middle + z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))) / (1 + z * z / count)


def main(argv: list[str]) -> int:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.compare_latency", description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="simulate five times as many comparisons")
    parser.add_argument("--series", choices=SERIES, action="append", help="only the errors with this kind of series")
    parser.add_argument("--servers", type=Path, metavar="DIR", help="only compare recordings of real servers in DIR")
    parser.add_argument("--across", type=Path, metavar="DIR", help="only compare those recordings with others in DIR")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    options = parser.parse_args(argv)
    times = LONG if options.long else 1
    parts: dict[str, Iterator[dict[str, Any]]] = {"errors": errors(options.series or list(SERIES), times)}
    if options.servers is not None:
        is_across = options.across is not None
        figures = across(options.servers, options.across) if is_across else equal_servers(options.servers)
        parts = {"equal servers": figures}
    elif not options.series:
        parts |= {
            "power": powers(times),
            "recordings": recordings(times),
            "alternatives": alternatives(times),
            "cost": costs(),
        }
    for part, figures in parts.items():
        for figure in figures:
            line = {"part": part, **figure}
            text = "  ".join(
                f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in line.items()
            )
            sys.stdout.write(f"{json.dumps(line, ensure_ascii=False) if options.json else text}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
