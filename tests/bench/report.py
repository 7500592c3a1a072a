"""What a report costs: to build, to open, to scroll and to filter, at several sizes.

    python -m tests.bench.report [--frames N]… [--json]

A busy stdio conversation of each size is reported, and the report is opened in the Chromium that is installed, without
a window. Times in the page are its own: the first paint is the first contentful one, a scroll frame is the time from
one animation frame to the next while the list moves by many pages in each, and a filter ends when it has searched
every payload, too. Informs, and never fails for a figure.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.bench.serve import Row, table
from tests.mcpproxy.html_report.browser import Opened, browser, opened
from tests.mcpproxy.html_report.conversations import busy

SIZES: Final = (1_000, 50_000)
SCROLLS: Final = 120
_PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_MARK: Final = "performance.getEntriesByName('mcpproxy-{}')[0].startTime"
_SCROLL: Final = """
new Promise((resolve) => {{
  const scroller = document.querySelector(".traffic-scroller");
  scroller.scrollIntoView();
  const step = Math.max(scroller.clientHeight, (scroller.scrollHeight - scroller.clientHeight) / {count});
  const times = [];
  let before = null;
  const turn = (now) => {{
    if (before !== null) times.push(now - before);
    before = now;
    scroller.scrollTop += step;
    if (times.length < {count}) requestAnimationFrame(turn);
    else resolve(times);
  }};
  requestAnimationFrame(turn);
}})
"""
_FILTER: Final = """
new Promise((resolve) => {{
  const text = document.getElementById("filter-text");
  const said = document.querySelector("#traffic > [role=status]");
  const began = performance.now();
  let first = null;
  new MutationObserver((_, observer) => {{
    first ??= performance.now() - began;
    if (!said.textContent.includes("searching")) {{
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => resolve([first, performance.now() - began, said.textContent])));
    }}
  }}).observe(said, {{childList: true, characterData: true, subtree: true}});
  text.value = "{text}";
  text.dispatchEvent(new Event("input", {{bubbles: true}}));
}})
"""


def measured(frames: int, place: Path) -> dict[str, Any]:
    """Measure all figures at one size."""
    capture, file = busy(place / f"{frames}.mcpcap", frames), place / f"{frames}.html"
    environment = {**os.environ, "HOME": str(place), "MCPPROXY_CACHE_SIZE": "0"}
    command = [sys.executable, "-m", "mcpproxy", "report", "-o", str(file), str(capture)]
    began = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    built_s = time.perf_counter() - began
    with browser() as started, opened(started, file) as report:
        # Opened a second time, as the first opening also starts the processes of the browser.
        report.go("?again")
        figures = in_page(report)
    return {
        "build_s": built_s,
        "capture_mb": capture.stat().st_size / 1e6,
        "file_mb": file.stat().st_size / 1e6,
        **figures,
    }


def in_page(report: Opened) -> dict[str, Any]:
    """Measure how long the page takes to appear, to scroll and to filter."""
    ready = {name: report.run(_MARK.format(name)) for name in ("overview", "traffic", "payloads")}
    paint = report.run(_PAINT)
    before = report.work_s()
    scroll = report.run(_SCROLL.format(count=SCROLLS))
    work_ms = (report.work_s() - before) * 1000 / len(scroll)
    by_rows = report.run(_FILTER.format(text="run_query"))
    by_payloads = report.run(_FILTER.format(text="structure of a dozen"))
    heap = report.run("performance.memory.usedJSHeapSize") / 1e6
    cuts = statistics.quantiles(scroll, n=100)
    return {
        "paint_ms": paint,
        **{f"{name}_ms": value for name, value in ready.items()},
        "scroll_p50_ms": cuts[49],
        "scroll_p95_ms": cuts[94],
        "scroll_max_ms": max(scroll),
        "scroll_work_ms": work_ms,
        "filter_first_ms": by_rows[0],
        "filter_ms": by_rows[1],
        "filter_rows": by_rows[2],
        "filter_nothing_ms": by_payloads[1],
        "heap_mb": heap,
    }


_ROWS: Final = (
    ("build", "s", "build_s", None),
    ("capture", "MB", "capture_mb", None),
    ("file", "MB", "file_mb", None),
    ("first paint", "ms", "paint_ms", 1_000),
    ("  first screen drawn", "ms", "overview_ms", None),
    ("  traffic shown", "ms", "traffic_ms", None),
    ("  payloads ready", "ms", "payloads_ms", None),
    ("scroll frame, p50", "ms", "scroll_p50_ms", None),
    ("scroll frame, p95", "ms", "scroll_p95_ms", None),
    ("scroll frame, max", "ms", "scroll_max_ms", None),
    ("  scripts and layout of one", "ms", "scroll_work_ms", 16),
    ("filter, first rows", "ms", "filter_first_ms", 200),
    ("filter, all rows", "ms", "filter_ms", None),
    ("filter, nothing found", "ms", "filter_nothing_ms", None),
    ("memory of scripts", "MB", "heap_mb", None),
)


def rows(found: dict[str, dict[str, Any]]) -> list[Row]:
    """The table; budgets apply to the largest size."""
    largest = list(found)[-1]
    return [
        Row(
            *(what, unit, {size: figures[name] for size, figures in found.items()}),
            *(found[largest][name] if budget else math.nan, unit, budget),
        )
        for what, unit, name, budget in _ROWS
    ]


def main(argv: list[str]) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.report", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--frames", type=int, action="append", help="of a capture; may be repeated")
    parser.add_argument("--json", action="store_true", help="print one JSON object with every figure")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as place:
        found = {f"{size:,}": measured(size, Path(place)) for size in options.frames or SIZES}
    if options.json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        print(table(rows(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
