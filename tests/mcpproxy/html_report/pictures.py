"""Draws the documentation's pictures of the report: `python -m tests.mcpproxy.html_report.pictures docs/pictures`."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.harness import ROOT
from tests.mcpproxy.html_report.browser import browser, opened

DEMO = ROOT / "tests/corpus/captures/demo.mcpcap"


def main(folder: Path) -> None:
    """Draw the pictures."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "report.html")
        subprocess.run([sys.executable, "-m", "mcpproxy", "report", "-o", file, DEMO], check=True)
        with browser() as started:
            with opened(started, file, width=1080, height=720) as report:
                report.page.screenshot(path=folder / "report.png")
            with opened(started, file, scheme="dark", width=1120, height=720) as report:
                report.go("#frame-12")
                report.page.wait_for_selector("aside.detail pre")
                report.page.screenshot(path=folder / "report-traffic.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
