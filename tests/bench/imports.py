"""What an import costs: time and memory for each form, from its sample in tests/corpus/imports repeated to a size.

    python -m tests.bench.imports [--mb N] [--from FORM]…

A call is repeated, so that a log stays one conversation; forms that are read as a whole get the entries of the sample
again and again. Informs, and never fails for a figure.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from mcpproxy.importers.form import forms

FOLDER: Final = Path(__file__).parents[1] / "corpus/imports"
WHOLE_MB: Final = {"har": 120, "inspector": 30, "mcpjam": 30, "mitmproxy": 200, "trace": 60}
"""Forms of which a log, or a line, has a limit, and MB below it."""


class ImportCost(NamedTuple):
    """What one import cost."""

    took_s: float
    cpu_s: float
    resident_mb: float
    """The most that the process had resident."""
    code: int
    first_line: str
    """Of its output."""


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=200, help="size of each log")
    parser.add_argument("--from", dest="forms", action="append", choices=list(forms()))
    options = parser.parse_args()
    for name in options.forms or forms():
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log")
            size = min(options.mb, WHOLE_MB.get(name, options.mb)) * 1_000_000
            write_log(name, log, size)
            cost = cost_of(name, log)
            figures = f"{cost.took_s:6.1f} s, {cost.cpu_s:6.1f} s of CPU, {cost.resident_mb:6.0f} MB resident"
            print(f"{name:<20} {log.stat().st_size / 1e6:6.0f} MB  {figures}  {cost.first_line}")


def write_log(name: str, path: Path, size: int) -> None:
    """Writes a log of at least a size, in bytes."""
    sample = next(FOLDER.glob(f"{name}.*")).read_bytes()
    with path.open("wb") as file:
        if name == "har":
            har = json.loads(sample)
            entries = har["log"]["entries"]
            har["log"]["entries"] = entries * (size // len(json.dumps(entries)))
            file.write(json.dumps(har).encode())
        elif name in ("inspector", "mcpjam"):
            entries = json.loads(sample)
            file.write(json.dumps(entries * (size // len(json.dumps(entries)))).encode())
        elif name == "trace":
            case = json.loads(sample)
            case["frames"][3:] = [{**frame, "t": 2000} for frame in case["frames"][3:]] * (size // 280)
            file.write(json.dumps(case).encode())
        elif name == "mitmproxy":
            for _ in range(size // len(sample)):
                file.write(sample)
        else:
            lines = sample.splitlines(keepends=True)
            first = next(number for number, line in enumerate(lines) if b"tools/call" in line or b"Calling " in line)
            # All at one time, as times of some forms must not go backwards. Calls without ids need their ends.
            block = lines[first] * 2 if b"tools/call" in lines[first] else lines[first] + lines[first + 1]
            file.write(b"".join(lines[:first]))
            for _ in range(size // len(block)):
                file.write(block)


def cost_of(name: str, log: Path) -> ImportCost:
    """Imports a log in a process of its own.

    A small process starts it: what its parent has resident would count, too.
    """
    out = log.with_name(f"{name}-out")
    command = [sys.executable, "-m", "mcpproxy", "import", "--from", name, str(log), "-o", str(out)]
    done = subprocess.run([sys.executable, "-S", "-c", _LAUNCHER, *command], capture_output=True, check=True)
    return ImportCost(*json.loads(done.stdout))


_LAUNCHER: Final = """
import json, os, subprocess, sys, time
begun = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
output = process.stdout.read().decode()
_, status, usage = os.wait4(process.pid, 0)
print(json.dumps([
    time.perf_counter() - begun,
    usage.ru_utime + usage.ru_stime,
    usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10),
    os.waitstatus_to_exitcode(status),
    output.partition("\\n")[0].rpartition("/")[2],
]))
"""


if __name__ == "__main__":
    main()
