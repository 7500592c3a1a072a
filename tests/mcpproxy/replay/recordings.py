"""A recording of tests/peers/chooser.py, as another run of that server answered."""

from pathlib import Path

from tests.analysis.store.capture_writer import CaptureWriter

TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": name != "save"}}
    for name in ("find", "job", "save")
]


def write_recording(folder: Path, *, saves: bool = False) -> Path:
    """Write a capture with two pages of tools, a job in two steps, and a call; with `saves`, also one that writes."""
    capture = CaptureWriter(folder / "old.mcpcap", "chooser")
    capture.handshake(name="chooser", version="1")
    capture.ask(20, 1, "tools/list")
    capture.answer(21, 1, tools=TOOLS[:2], nextCursor="11111111-1111-4111-8111-111111111111")
    capture.ask(22, 2, "tools/list", cursor="11111111-1111-4111-8111-111111111111")
    capture.answer(23, 2, tools=TOOLS[2:])
    capture.call(24, 3, "job")
    capture.answer(25, 3, content=[{"type": "text", "text": '{"jobId": "22222222-2222-4222-8222-222222222222"}'}])
    capture.call(26, 4, "job", jobId="22222222-2222-4222-8222-222222222222")
    capture.answer(27, 4, content=[{"type": "text", "text": '{"jobId": "22222222-2222-4222-8222-222222222222"}'}])
    for number in range(5, 8):
        capture.call(10 * number, number, "find", query=number)
        capture.answer(10 * number + 1, number, content=[{"type": "text", "text": "found"}])
    if saves:
        capture.call(100, 8, "save", text="keep this")
        capture.answer(101, 8, content=[{"type": "text", "text": "found"}])
    return capture.close()
