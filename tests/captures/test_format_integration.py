"""FORMAT.md matches the code: the same members in the same order, and its commands work."""

import ast
import base64
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.reader import Capture
from captures.record import MAX_LINE_BYTES, MAX_RAW_BYTES, Record
from captures.versions import FORMAT_VERSION, UPGRADES, upgrade
from tests.captures import samples
from tests.captures.samples import every_type, tables
from tests.harness import Place, peer, server_of

ROOT = Path(__file__).parents[2]
PAGE = samples.PAGE.read_text("utf-8")
GOLDEN = ROOT / "tests/corpus/captures"
SHARED = ("seq", "rec", "t_ns")


class TestPage:
    """The page and the encoder name the same members, in the same order."""

    def test_it_has_a_table_for_each_type_of_record(self) -> None:
        assert set(tables()) == {
            *("header", "frame", "part", "exchange", "stream", "eof"),
            *("stderr", "process", "signal", "stall", "gap", "close"),
        }

    def check(self, records: list[Record]) -> None:
        listed = tables()
        for record in records:
            if record.rec in listed and not record.rec.startswith("x_"):
                names = [name for name in record.members if name not in (*SHARED, "crc")]
                order = [name for name in listed[record.rec] if name in names]
                assert [name for name in names if not name.startswith("x_")] == order, record.rec

    @pytest.mark.parametrize(
        "name", ["demo", "stdio", "killed", "gaps", "two-segments", "giant-frames", "not-utf8", "http"]
    )
    def test_it_lists_the_members_of_the_goldens_in_their_order(self, name: str) -> None:
        self.check([item for item in Capture(GOLDEN / f"{name}.mcpcap") if isinstance(item, Record)])

    def test_it_lists_the_members_that_the_recorder_writes_in_their_order(self, place: Place) -> None:
        session = place.start(peer("giant_frame", "--bytes", "2500000", "--end"))
        session.rest()
        session.finish()
        signalled = place.start(peer("echo"), "--fsync", "never")
        signalled.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n\xff\n[] x')
        signalled.line()
        server_of(signalled)
        signalled.process.terminate()
        signalled.end()
        failed = place.start(["/nowhere/none"])
        failed.end()
        records = [*session.records(), *signalled.records(), *failed.records()]
        assert {record.rec for record in records} >= {"header", "process", "frame", "part", "signal", "eof", "close"}
        self.check(records)

    def test_every_listed_member_is_written_somewhere(self) -> None:
        written = set()
        writers = ("captures/record", "captures/loss", "captures/writer", "captures/repair")
        for path in (
            *writers,
            "mcpproxy/recorder/capture_header",
            "mcpproxy/recorder/stdio",
            "mcpproxy/recorder/http",
            "mcpproxy/recorder/process_events",
            "mcpproxy/recorder/exchange",
            "mcpproxy/recorder/body_recorder",
            "mcpproxy/cli/serve",
            "mcpproxy/importers/capture_lines",
            "mcpproxy/sharing/records",
            "mcpproxy/sharing/cassette",
        ):
            for node in ast.walk(ast.parse((ROOT / f"{path}.py").read_text("utf-8"))):
                if isinstance(node, ast.keyword) and node.arg is not None:
                    written.add(node.arg)
                elif isinstance(node, ast.Constant) and isinstance(node.value, bytes | str):
                    text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
                    written.update(re.findall(r'"(\w+)":', text), [text])
        missing = {f"{rec}.{name}" for rec, names in tables().items() for name in names if name not in written}
        assert missing == set()

    def test_its_numbers_are_those_of_the_code(self) -> None:
        assert f"The capture format, version {FORMAT_VERSION}" in PAGE
        assert f"No line is longer than 8 MiB ({MAX_LINE_BYTES:,} bytes)" in PAGE
        assert MAX_RAW_BYTES == 1 << 20
        assert "A frame above 1 MiB is written as parts" in PAGE

    def test_what_it_replaces_and_refuses_is_listed(self) -> None:
        for word in ("key-not-kept", "ENOSPC", "slow", "damage"):
            assert f"`{word}`" in PAGE


class TestReadingWithoutUs:
    """The commands of the page work as printed."""

    def block(self, language: str, path: Path) -> str:
        found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
        assert found is not None
        return found[1].replace("NAME.mcpcap", str(path))

    @pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
    @pytest.mark.parametrize("name", ["demo", "stdio", "killed", "gaps", "http", "not-utf8"])
    def test_jq_lists_the_requests(self, name: str) -> None:
        path = GOLDEN / f"{name}.mcpcap"
        done = subprocess.run(["sh", "-c", self.block("sh", path)], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == path.read_bytes().endswith(b"\n"), done.stderr
        records = [item for item in Capture(path) if isinstance(item, Record) and item.rec == "frame"]
        requests = [item for item in records if item.members["kind"] == "request"]
        expected = [f"{item.seq}\t{item.members['dir']}\t{item.members.get('method', '')}" for item in requests]
        assert done.stdout.splitlines() == expected

    @pytest.mark.parametrize("name", ["demo", "stdio", "killed", "torn", "gaps", "giant-frames", "http", "not-utf8"])
    def test_duckdb_counts_the_frames(self, name: str) -> None:
        duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
        path = GOLDEN / f"{name}.mcpcap"
        rows = duckdb.connect().execute(self.block("sql", path)).fetchall()
        frames = [item.members for item in Capture(path) if isinstance(item, Record) and item.rec == "frame"]
        counts = Counter((frame["dir"], frame["kind"]) for frame in frames)
        sizes: Counter[tuple[str, str]] = Counter()
        for frame in frames:
            sizes[frame["dir"], frame["kind"]] += frame["size"]
        assert {(row[0], row[1]): (row[2], row[3]) for row in rows} == {
            key: (count, sizes[key]) for key, count in counts.items()
        }

    def test_every_line_is_json_for_everybody(self) -> None:
        for line in b"".join([*every_type(), (GOLDEN / "stdio.mcpcap").read_bytes()]).splitlines():
            names = list(json.loads(line))
            assert (names[0], names[-1]) == ("seq", "crc")

    def test_the_exact_bytes_are_raw_or_raw_b64_and_the_delimiter(self, place: Place) -> None:
        sent = b'{"a":"\xc3\xb6"}\n\xff\r\n\n\r\n\x00\x7f\n{"unfinished":'
        session = place.start(peer("echo", "--raw"))
        session.send(sent)
        assert session.receive(len(sent)) == sent
        assert session.finish() == 0
        for direction in ("c2s", "s2c"):
            joined = b""
            for line in session.capture.read_bytes().splitlines() if session.capture else ():
                record = json.loads(line)
                if record["rec"] == "frame" and record["dir"] == direction:
                    raw = record["raw"].encode() if "raw" in record else base64.b64decode(record["raw_b64"])
                    joined += raw + record.get("delim", "\n").encode()
            assert joined == sent


class TestVersions:
    """The version number, and the upgrade step from each older version."""

    def test_every_older_version_has_a_step(self) -> None:
        assert set(UPGRADES) == set(range(1, FORMAT_VERSION))

    def test_a_record_of_this_version_stays_as_it_is(self) -> None:
        members = {"seq": 1}
        assert upgrade(members, FORMAT_VERSION) is members

    def test_older_records_take_one_step_after_the_other(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Tested as if the current version were 3."""
        for module in ("versions", "reader"):
            monkeypatch.setattr(f"captures.{module}.FORMAT_VERSION", 3)
        monkeypatch.setitem(UPGRADES, 1, lambda members: {**members, "steps": [1]})
        monkeypatch.setitem(UPGRADES, 2, lambda members: {**members, "steps": [*members["steps"], 2]})
        capture = Capture(shutil.copy(GOLDEN / "stdio.mcpcap", tmp_path))
        assert capture.header.members["steps"] == [1, 2]
        assert all(item.members["steps"] == [1, 2] for item in capture if isinstance(item, Record))


def test_a_capture_is_readable_while_it_is_being_written(tmp_path: Path) -> None:
    made = CaptureFile(tmp_path / "x.mcpcap")
    for number, line in enumerate(every_type(), 1):
        made.append(line)
        assert len(list(Capture(tmp_path / "x.mcpcap"))) == number
    made.close()
