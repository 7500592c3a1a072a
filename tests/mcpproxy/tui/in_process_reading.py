"""A reading whose worker runs in this process: its messages are encoded as usual, but no process is started."""

from pathlib import Path

from analysis.child_process import from_json
from mcpproxy.tui.data.checking import apply_report
from mcpproxy.tui.data.columns import batch_in
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.worker import ReadingTask


def pass_message(reading: Reading, message: bytes) -> None:
    """Pass a reading a message from its worker."""
    batch = batch_in(message)
    if batch is not None:
        reading.on_batch(batch)
        return
    report = from_json(message)
    if "news" in report:
        reading.on_news(report["news"])
    else:
        apply_report(report, reading.findings)


class InProcessReading(Reading):
    """The reading of one capture; each of its steps includes a step of the worker."""

    def __init__(self, path: Path, *, with_rules: bool = False) -> None:
        super().__init__(path)
        self.heard: list[bytes] = []
        """The messages of the worker."""
        self.task = ReadingTask(1, path, self._hear, most=self.max_rows, with_rules=with_rules)

    def _hear(self, message: bytes) -> None:
        self.heard.append(message)
        pass_message(self, message)

    def step(self) -> bool:
        """Do some work, and have the worker do some; returns whether either did any."""
        is_busy = [self.task.step(is_urgent=is_urgent) for is_urgent in (True, False)]
        return super().step() or any(is_busy)

    def close(self) -> None:
        """Close the files of both."""
        self.task.close()
        super().close()
