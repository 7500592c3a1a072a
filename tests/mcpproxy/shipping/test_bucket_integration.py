"""Shipping to a real S3 server: over connections that break, stall and refuse, and with kills in between."""

import os
import queue
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.shipping.bucket import PART_BYTES, Bucket
from mcpproxy.shipping.destination import BrokenFile
from tests.harness import DEADLINE_S
from tests.mcpproxy.cli.typed import complaints, mcpproxy, surroundings
from tests.mcpproxy.shipping.data_set import is_tidy, large, rows, written
from tests.mcpproxy.shipping.s3 import FAULTS, Connection, copied, environment, relayed
from tests.rows import row
from tests.warm import forks

GIVEN = ("--unredacted", "--raw")


def ship(port: int, prefix: str, home: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[bytes]":
    return mcpproxy("ship", f"s3://lake/{prefix}", *arguments, XDG_STATE_HOME=str(home), **environment(port))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("captures"), 1)


def in_folder(tmp_path: Path, *arguments: str | Path) -> dict[str, list[Any]]:
    """Returns the rows that the same command writes to a directory."""
    done = mcpproxy("ship", tmp_path / "folder", *arguments, XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    return rows(tmp_path / "folder")


@pytest.fixture(scope="module")
def expected(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    return in_folder(tmp_path_factory.mktemp("expected"), *GIVEN, source)


@pytest.mark.costly("it ships twice for each of six faults, and the server starts before it")
def test_every_row_arrives_once_whatever_becomes_of_connections(
    s3: int, source: Path, expected: dict[str, list[Any]], tmp_path: Path
) -> None:
    for fault, spoil in FAULTS.items():
        with row(fault):
            prefix, home = f"faults/{fault.replace(' ', '-')}", tmp_path / fault
            home.mkdir()
            with relayed(s3, [spoil, FAULTS["passed on"]]) as relay:
                done = ship(relay.port, prefix, home, *GIVEN, source)
                assert (done.returncode, complaints(done)) == (0, b"")
                assert relay.count >= (1 if fault in ("passed on", "short and slow writes") else 2)
            there = copied(s3, home / "there", prefix)
            assert (rows(there), is_tidy(there)) == (expected, True)
            assert b" 1 unchanged; " in ship(s3, prefix, home, *GIVEN, source).stdout


@pytest.mark.costly("it ships more than two parts of eight megabytes")
def test_a_large_file_goes_in_parts_through_resets(s3: int, tmp_path: Path) -> None:
    source = large(tmp_path / "captures" / "large.mcpcap", 30)
    with relayed(s3, [FAULTS["passed on"], FAULTS["reset in the body"]]) as relay:
        done = ship(relay.port, "large", tmp_path, "--unredacted", "--raw", source)
        assert (done.returncode, complaints(done)) == (0, b"")
    there = copied(s3, tmp_path / "there", "large")
    (raw,) = there.glob("raw/*/*")
    assert raw.read_bytes() == source.read_bytes()
    assert raw.stat().st_size > 2 * PART_BYTES
    assert is_tidy(there)


def check_kills(cuts: int, s3: int, source: Path, expected: dict[str, list[Any]], folder: Path) -> None:
    """Kill `ship` after each of several equal shares of the bytes it sends; the next run makes up for it."""
    total = killed_after(1 << 60, "cuts/all", s3, folder, source)
    for cut in range(cuts):
        with row(cut):
            prefix = f"cuts/{cuts}-{cut}"
            killed_after(total * cut // cuts, prefix, s3, folder, source)
            assert rows(copied(s3, folder / f"{cut}-killed", prefix)) in ({}, expected)
            assert ship(s3, prefix, folder, *GIVEN, source).returncode == 0
            there = copied(s3, folder / f"{cut}", prefix)
            assert (rows(there), is_tidy(there)) == (expected, True)


def killed_after(limit: int, prefix: str, port: int, home: Path, source: Path) -> int:
    """Ship, and kill the command after it has sent that many bytes; returns how many the server got."""
    sent: list[int] = []
    started: queue.SimpleQueue[int] = queue.SimpleQueue()

    def fault(connection: Connection) -> None:
        def watch(size: int) -> None:
            sent.append(size)
            if sum(sent) > limit:
                pid = started.get(timeout=DEADLINE_S)
                started.put(pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        connection.pass_on(watch=watch)

    with relayed(port, [fault]) as relay:
        words = ("ship", f"s3://lake/{prefix}", *GIVEN, source)
        with open(os.devnull, "r+b", buffering=0) as nowhere:
            streams = [nowhere.fileno()] * 3
            variables = surroundings({"XDG_STATE_HOME": str(home), **environment(relay.port)})
            started.put(forks().begin(words, streams, None, variables))
        assert forks().end(DEADLINE_S) in (0, -signal.SIGKILL)
    return sum(sent)


@pytest.mark.costly("it is killed and repeated at five points")
def test_a_kill_at_any_byte_loses_and_repeats_nothing(
    s3: int, source: Path, expected: dict[str, list[Any]], tmp_path: Path
) -> None:
    check_kills(5, s3, source, expected, tmp_path)


@pytest.mark.soak
def test_a_kill_at_many_bytes_loses_and_repeats_nothing(
    s3: int, source: Path, expected: dict[str, list[Any]], tmp_path: Path
) -> None:
    check_kills(60, s3, source, expected, tmp_path)


@pytest.mark.costly("it ships four captures twice, to a server and to a folder")
def test_days_are_compacted_there_too(s3: int, tmp_path: Path) -> None:
    for number in range(4):
        written(tmp_path / "captures", number, tables=3)
    source = tmp_path / "captures"
    expected = in_folder(tmp_path, "--unredacted", source)
    done = ship(s3, "days", tmp_path, "--unredacted", "--compact", source)
    assert b": 1 day compacted, 12 files into 3\n" in done.stdout
    assert ship(s3, "days", tmp_path, "--unredacted", "--raw", source / "2.mcpcap").returncode == 0
    there = copied(s3, tmp_path / "there", "days")
    assert (rows(there), is_tidy(there)) == (expected, True)


def test_a_manifest_that_changed_meanwhile_is_not_replaced(s3: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(s3).items():
        monkeypatch.setenv(name, value)
    bucket = Bucket("s3://lake/conditions")
    assert bucket.replace("a.json", b"1", None)
    assert not bucket.replace("a.json", b"2", None)
    first = bucket.read("a.json")
    assert bucket.replace("a.json", b"3", first)
    assert not bucket.replace("a.json", b"4", first)
    # The response to a put may get lost, so a put that finds its own content has succeeded.
    assert bucket.replace("a.json", b"3", first)


def test_what_is_too_large_for_a_manifest_is_not_read(s3: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(s3).items():
        monkeypatch.setenv(name, value)
    bucket = Bucket("s3://lake/sizes")
    bucket.write("a.json", b"12345")
    assert not bucket.fetch("a.json", tmp_path / "a", 4)
    assert bucket.fetch("a.json", tmp_path / "a", 5)
    monkeypatch.setattr("mcpproxy.shipping.bucket.MAX_SMALL_FILE_BYTES", 4)
    with pytest.raises(BrokenFile, match="larger than any manifest; move it away"):
        bucket.read("a.json")


@pytest.mark.parametrize("fault", ["reset at once", "503"])
def test_a_store_that_cannot_be_reached_is_an_error_without_a_credential(fault: str, s3: int, tmp_path: Path) -> None:
    source = written(tmp_path / "captures", 1)
    with relayed(s3, [FAULTS[fault]]) as relay:
        done = ship(relay.port, "never", tmp_path, source)
    assert (done.returncode, done.stdout) == (73, b"")
    (line,) = complaints(done).splitlines()
    assert line.startswith(b"mcpproxy: cannot read s3://lake/never/_manifests/")
    assert line.endswith(b"; nothing was shipped, and the next run continues")
    assert not [secret for secret in (b"very-secret-key", b"testing", b"Signature") if secret in line]


def test_an_unknown_bucket_is_named(s3: int, tmp_path: Path) -> None:
    done = mcpproxy(
        "ship",
        "s3://nowhere/x",
        "--unredacted",
        written(tmp_path / "captures", 1),
        XDG_STATE_HOME=str(tmp_path),
        **environment(s3),
    )
    assert (done.returncode, b"NoSuchBucket" in done.stderr) == (73, True)


def without(library: str, tmp_path: Path, **variables: str) -> "subprocess.CompletedProcess[bytes]":
    """Ship to a bucket in a process that cannot import a library; no request is made."""
    program = f"import sys; sys.modules[{library!r}] = None; from mcpproxy.__main__ import main; sys.exit(main())"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.run(
        [sys.executable, "-c", program, "ship", "s3://lake/x"],
        capture_output=True,
        env={**kept, "HOME": str(tmp_path), **variables},
        timeout=DEADLINE_S,
    )


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    done = without("obstore", tmp_path)
    assert (done.returncode, done.stdout) == (73, b"")
    assert b"pip install '.[ship]'" in done.stderr


def test_a_profile_needs_boto3(tmp_path: Path) -> None:
    done = without("boto3", tmp_path, AWS_PROFILE="work")
    assert (done.returncode, done.stdout) == (73, b"")
    assert done.stderr.startswith(b"mcpproxy: cannot use the AWS profile work: ")
    assert b"pip install boto3" in done.stderr
