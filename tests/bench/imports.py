"""What an import costs: time and memory for each form, from its sample in tests/corpus/imports repeated to a size.

    python -m tests.bench.imports [--mb N] [--from FORM]…

The last two messages of a log are repeated, so that it stays one conversation; `har`, `mitmproxy` and `trace`, which
are read as a whole, get the entries of the sample again and again. Informs, and never fails for a figure.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from mcpproxy.importers.form import forms

FOLDER: Final = Path(__file__).parents[1] / "corpus/imports"
WHOLE_MB: Final = {"har": 120, "trace": 60, "mitmproxy": 200}
"""Forms of which a log, or a line, has a limit, and MB below it."""


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=200, help="size of each log")
    parser.add_argument("--from", dest="forms", action="append", choices=list(forms()))
    options = parser.parse_args()
    for name in options.forms or forms():
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log")
            write_log(name, log, min(options.mb, WHOLE_MB.get(name, options.mb)) * 1_000_000)
            print(f"{name:<20} {log.stat().st_size / 1e6:6.0f} MB  {measured(name, log)}")


def write_log(name: str, path: Path, size: int) -> None:
    """Writes a log of at least a size, in bytes."""
    sample = next(FOLDER.glob(f"{name}.*")).read_bytes()
    with path.open("wb") as file:
        if name == "har":
            har = json.loads(sample)
            entries = har["log"]["entries"]
            har["log"]["entries"] = entries * (size // len(json.dumps(entries)))
            file.write(json.dumps(har).encode())
        elif name == "trace":
            case = json.loads(sample)
            case["frames"][3:] = [{**frame, "t": 2000} for frame in case["frames"][3:]] * (size // 250)
            file.write(json.dumps(case).encode())
        elif name == "mitmproxy":
            for _ in range(size // len(sample)):
                file.write(sample)
        else:
            lines = sample.splitlines(keepends=True)
            block = b"".join(lines[-2:])
            file.write(b"".join(lines))
            for _ in range(size // len(block)):
                file.write(block)


def measured(name: str, log: Path) -> str:
    """Imports a log in a process of its own; returns its figures as text."""
    command = [sys.executable, "-m", "mcpproxy", "import", "--from", name, str(log), "-o", str(log.with_name("out"))]
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    took_s = time.perf_counter() - begun
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    first = (done.stdout or done.stderr).decode().splitlines()[0].rpartition("/")[2]
    return f"{took_s:6.1f} s  {memory:6.0f} MB resident (the most so far)  {first}"


if __name__ == "__main__":
    main()
