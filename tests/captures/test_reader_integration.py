"""The reader's memory use, measured in a process with limited memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from captures.reader import Capture
from captures.record import LINE_START, Record, members, seal
from tests.captures.samples import header, lost

FILLS = {
    "zeros": (b"\0", 64, 300),
    "newlines": (b"\n", 1, 4),
    "beginnings": (LINE_START, 1, 16),
    "ends": (b',"crc":"01234567"}', 1, 16),
    "parts": (seal(1, 0, "part", b',"dir":"s2c","conn":0,"part":1,"size":1,"raw":"x"'), 1, 24),
    "gaps": (seal(1, 0, "gap", members(first=0, last=0, lost=lost(), x="x" * 9000)), 64, 0),
    "small gaps": (seal(1, 0, "gap", members(first=0, last=0, lost=lost(), x="x" * 900)), 0, 150),
    "claims": (seal(1, 0, "frame", b',"dir":"s2c","size":%d,"parts":%d' % (2**60, 2**60)), 1, 16),
}
"""The content that fills a hostile file, and its size in MiB: in the suite, and in soak tests."""
READS = """
import resource, sys
from captures.integrity import inspect
from captures.reader import Capture, assembled_items
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (int(sys.argv[1]) << 20),) * 2)
for path in sys.argv[2:]:
    print(path, flush=True)
    assert inspect(Capture(path)).state == "damaged"
    assert all(assembled_items(Capture(path)))
"""


def check_memory(folder: Path, room_mib: int, sizes_mib: dict[str, int]) -> None:
    """Read a file of each kind in a process that may use `room_mib` MiB more than at its start."""
    paths = []
    for name, size_mib in sizes_mib.items():
        paths.append(str(folder / f"{name}.mcpcap"))
        fill, *_ = FILLS[name]
        with open(paths[-1], "wb") as file:
            file.write(seal(0, 0, "header", header(size=2**62, parts=2**62)))
            for _ in range(size_mib):
                file.write(fill * ((1 << 20) // len(fill)))
    done = subprocess.run(
        [sys.executable, "-c", READS, str(room_mib), *paths], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, paths), done.stderr


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited by what /proc tells")
@pytest.mark.costly("a process fills several times the memory that a reader may take")
def test_memory_is_bounded_whatever_a_file_holds(tmp_path: Path) -> None:
    check_memory(tmp_path, 40, {name: size for name, (_, size, _) in FILLS.items() if size})


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name, (_, _, size) in FILLS.items() if size])
def test_memory_is_bounded_however_much_a_file_holds(tmp_path: Path, name: str) -> None:
    check_memory(tmp_path, 230, {name: FILLS[name][2]})


RING = """
import os, sys
from captures.errors import NotACapture
from captures.reader import Capture
def ring(event, arguments, left=int(sys.argv[2])):
    name = str(arguments[0]) if event == "open" else ""
    if os.path.exists(name) and name.endswith(".mcpcap") and left >= int(name.split(".")[-2]):
        os.unlink(name)
sys.addaudithook(ring)
try:
    print(Capture(sys.argv[1]).header.members["segment"])
except NotACapture as error:
    print(error)
"""


@pytest.mark.parametrize(("taken", "said"), [(4, "5"), (6, "No such file or directory")])
def test_a_segment_that_the_ring_takes_as_it_is_opened_is_not_missed(tmp_path: Path, taken: int, said: str) -> None:
    """Each segment up to a given number is deleted just before it is opened."""
    for number in range(2, 7):
        (tmp_path / f"x.{number}.mcpcap").write_bytes(seal(number, 0, "header", header(number)))
    done = subprocess.run(
        [sys.executable, "-c", RING, str(tmp_path / "x.2.mcpcap"), str(taken)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip().endswith(said)


def test_a_file_that_grows_faster_than_it_is_read_has_an_end(tmp_path: Path) -> None:
    """For each record that is read, one more is appended."""
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"".join(seal(number, 0, "header" if number == 0 else "x", header()) for number in range(100)))
    with path.open("ab", buffering=0) as file:
        found = []
        for item in Capture(path):
            assert isinstance(item, Record)
            found.append(item.seq)
            file.write(seal(len(found) + 99, 0, "x", header()))
            assert len(found) <= 200
    assert found == list(range(100))
