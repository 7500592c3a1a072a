"""Shipping to a real S3 server: over connections that break, stall and refuse, and with kills in between."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mcpproxy.shipping.bucket import _NO_CREDENTIALS, PART, Bucket, _reason
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.shipping.data_set import is_tidy, large, rows, written
from tests.mcpproxy.shipping.s3 import FAULTS, Connection, copied, environment, relayed, server

CUTS = 12


@pytest.fixture(scope="module")
def s3() -> Iterator[int]:
    """The port of the server."""
    with server() as port:
        yield port


def ship(port: int, prefix: str, home: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[bytes]":
    return mcpproxy("ship", f"s3://lake/{prefix}", *arguments, XDG_STATE_HOME=str(home), **environment(port))


def in_folder(tmp_path: Path, *arguments: str | Path) -> Path:
    """What the same command makes of a directory."""
    done = mcpproxy("ship", tmp_path / "folder", *arguments, XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    return tmp_path / "folder"


@pytest.mark.parametrize("fault", FAULTS)
def test_every_row_arrives_once_whatever_becomes_of_connections(fault: str, s3: int, tmp_path: Path) -> None:
    source, prefix = written(tmp_path / "captures", 1), f"faults/{fault.replace(' ', '-')}"
    given = ("--unredacted", "--raw", source)
    with relayed(s3, [FAULTS[fault], FAULTS["passed on"]]) as relay:
        done = ship(relay.port, prefix, tmp_path, *given)
        assert (done.returncode, complaints(done)) == (0, b"")
        assert relay.count >= (1 if fault in ("passed on", "short and slow writes") else 2)
    there = copied(s3, tmp_path / "there", prefix)
    assert (rows(there), is_tidy(there)) == (rows(in_folder(tmp_path, *given)), True)
    assert b" 1 unchanged; " in ship(s3, prefix, tmp_path, *given).stdout


def test_a_large_file_goes_in_parts_through_resets(s3: int, tmp_path: Path) -> None:
    source = large(tmp_path / "captures" / "large.mcpcap", 30)
    with relayed(s3, [FAULTS["passed on"], FAULTS["reset in the body"]]) as relay:
        done = ship(relay.port, "large", tmp_path, "--unredacted", "--raw", source)
        assert (done.returncode, complaints(done)) == (0, b"")
    there = copied(s3, tmp_path / "there", "large")
    (raw,) = there.glob("raw/*/*")
    assert raw.read_bytes() == source.read_bytes()
    assert raw.stat().st_size > 2 * PART
    assert is_tidy(there)


def test_a_kill_at_any_byte_loses_and_repeats_nothing(s3: int, tmp_path: Path) -> None:
    source = written(tmp_path / "captures", 1)
    expected = rows(in_folder(tmp_path, "--unredacted", source))
    total = killed_after(1 << 60, "cuts/all", s3, tmp_path, source)
    for cut in range(CUTS):
        prefix = f"cuts/{cut}"
        killed_after(total * cut // CUTS, prefix, s3, tmp_path, source)
        assert rows(copied(s3, tmp_path / f"{cut}-killed", prefix)) in ({}, expected)
        assert ship(s3, prefix, tmp_path, "--unredacted", source).returncode == 0
        there = copied(s3, tmp_path / f"{cut}", prefix)
        assert (rows(there), is_tidy(there)) == (expected, True)


def killed_after(limit: int, prefix: str, port: int, home: Path, source: Path) -> int:
    """Ship, and kill that once the server was sent so many bytes; returns how many it was sent."""
    sent: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def fault(connection: Connection) -> None:
        def watch(size: int) -> None:
            sent.append(size)
            if sum(sent) > limit:
                with suppress(ProcessLookupError):
                    started[0].send_signal(signal.SIGKILL)

        connection.pass_on(watch=watch)

    with relayed(port, [fault]) as relay:
        words = [sys.executable, "-m", "mcpproxy", "ship", f"s3://lake/{prefix}", "--unredacted", str(source)]
        changes = {"XDG_STATE_HOME": str(home), **environment(relay.port)}
        with subprocess.Popen(words, env={**os.environ, **changes}, stdout=subprocess.DEVNULL) as process:
            started.append(process)
            assert process.wait(60) in (0, -signal.SIGKILL)
    return sum(sent)


def test_days_are_compacted_there_too(s3: int, tmp_path: Path) -> None:
    for number in range(4):
        written(tmp_path / "captures", number)
    source = tmp_path / "captures"
    expected = rows(in_folder(tmp_path, "--unredacted", source))
    done = ship(s3, "days", tmp_path, "--unredacted", "--compact", source)
    assert b": 1 day compacted, 24 files into 6\n" in done.stdout
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
    # The answer to a put may get lost, so one that finds its own content has succeeded.
    assert bucket.replace("a.json", b"3", first)


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
        written(tmp_path / "captures", 1),
        XDG_STATE_HOME=str(tmp_path),
        **environment(s3),
    )
    assert (done.returncode, b"NoSuchBucket" in done.stderr) == (73, True)


def without(library: str, tmp_path: Path, **variables: str) -> "subprocess.CompletedProcess[bytes]":
    """Ship to a bucket in a process that cannot import a library; it makes no request."""
    program = f"import sys; sys.modules[{library!r}] = None; from mcpproxy.__main__ import main; sys.exit(main())"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.run(
        [sys.executable, "-c", program, "ship", "s3://lake/x"],
        capture_output=True,
        env={**kept, "HOME": str(tmp_path), **variables},
        timeout=60,
    )


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    done = without("obstore", tmp_path)
    assert (done.returncode, done.stdout) == (73, b"")
    assert b"pip install 'mcpproxy[ship]'" in done.stderr


def test_a_profile_needs_boto3(tmp_path: Path) -> None:
    done = without("boto3", tmp_path, AWS_PROFILE="work")
    assert (done.returncode, done.stdout) == (73, b"")
    assert done.stderr.startswith(b"mcpproxy: cannot use the AWS profile work: ")
    assert b"pip install boto3" in done.stderr


PUT = "Error performing PUT https://a.example/x?sig=SECRET&se=1 in 2.1s"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            f"Generic S3 error: {PUT}, after 10 retries, max_retries: 10, retry_timeout: 180s  - HTTP error: reset",
            "no answer after 10 retries: HTTP error: reset",
        ),
        (f"{PUT} - status 403: <Code>AccessDenied</Code><StringToSign>SECRET", "the store answered AccessDenied"),
        (f"{PUT} - non-2xx status code: 403 Forbidden: SECRET", "the store answered 403 Forbidden"),
        (f"{PUT} failed\nDebug: SECRET", "Error performing PUT https://a.example/x?… in 2.1s failed"),
        (f"{PUT} - PUT http://169.254.169.254/latest/api/token", _NO_CREDENTIALS),
    ],
)
def test_errors_say_what_happened_and_hold_no_signature(error: str, reason: str) -> None:
    assert _reason(OSError(error)) == reason
