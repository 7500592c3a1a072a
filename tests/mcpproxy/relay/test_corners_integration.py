"""Edge cases of `run`: a full stdout, few open files, no /proc, and no `ps`."""

import os
from pathlib import Path

import pytest

from mcpproxy.cli.run import MAX_OPEN_FILES
from mcpproxy.clients.wrapper import KEEP_SERVING_OPTION
from tests.harness import Place, members_of, peer

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{"echo":{}}}\n'


def with_files(soft: int, hard: int) -> str:
    return f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))"


@pytest.mark.parametrize(("status", "expected"), [(0, 1), (3, 3)])
@pytest.mark.parametrize("how", ["recorded", "unrecorded"])
def test_an_unwritable_stdout_is_reported_and_fails(place: Place, status: int, expected: int, how: str) -> None:
    """Without the recorder, the server would see the error; with it, only a broken pipe if it writes again."""
    if how == "unrecorded":
        place.captures.write_text("in the way")
    command = [
        place.python,
        "-P",
        "-m",
        "mcpproxy",
        "run",
        KEEP_SERVING_OPTION,
        "--",
        *peer("echo", "--status", str(status)),
    ]
    with open("/dev/full", "wb") as full:
        session = place.start(command, direct=True, stdout=full)
        session.send(PING)
        session.close_stdin()
        assert session.end() == expected
    *_, last = session.errors().decode().splitlines()
    assert last == "mcpproxy: cannot write the server's output to stdout: No space left on device"
    if how == "recorded":
        (eof,) = (members for members in members_of(place.newest(), "eof") if members["dir"] == "s2c")
        assert (eof["by"], eof["errno"]) == ("receiver", "ENOSPC")


@pytest.mark.parametrize("files", [5, 8, 12, 16, MAX_OPEN_FILES - 1])
def test_with_too_few_open_files_it_says_so_or_gives_way(place: Place, files: int) -> None:
    run = [place.python, "-P", "-m", "mcpproxy", "run"]
    session = place.start([*run, "--", *peer("echo")], direct=True, before=with_files(files, files))
    assert (session.rest(), session.end()) == (b"", 73)
    (line,) = session.errors().decode().splitlines()
    assert line.startswith(f"mcpproxy: cannot record with a limit of {files} open files: ")
    assert list(place.captures.rglob("*.mcpcap")) == []
    session = place.start(
        [*run, KEEP_SERVING_OPTION, "--", *peer("echo", "--status", "7")], direct=True, before=with_files(files, files)
    )
    session.send(PING)
    assert session.line() == PONG
    session.close_stdin()
    assert session.end() == 7
    (line,) = session.errors().decode().splitlines()
    assert line.endswith("the server runs unrecorded until it is restarted")
    session = place.start([*run, KEEP_SERVING_OPTION, "--", "/no/such"], direct=True, before=with_files(files, files))
    assert (session.rest(), session.end()) == (b"", 127)


def test_files_that_it_was_started_with_count_too(place: Place) -> None:
    kept = "import os; [os.set_inheritable(os.open('/dev/null', os.O_RDONLY), True) for _ in range(10)]"
    command = [place.python, "-P", "-m", "mcpproxy", "run", KEEP_SERVING_OPTION, "--", *peer("echo")]
    for limit, is_recorded in ((MAX_OPEN_FILES + 9, False), (MAX_OPEN_FILES + 10, True)):
        session = place.start(command, direct=True, before=f"{kept}; {with_files(limit, limit)}")
        session.send(PING)
        assert session.line() == PONG, limit
        session.close_stdin()
        assert session.end() == 0
        assert (b"unrecorded until it is restarted" in session.errors()) is not is_recorded


def test_a_soft_limit_is_raised_for_us_and_not_for_the_server(place: Place) -> None:
    command = [place.python, "-P", "-m", "mcpproxy", "run", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn"]
    session = place.start(command, direct=True, before=with_files(10, 100))
    assert (session.rest(), session.end(), session.errors()) == (b"10\n100\n", 0, b"")


def test_without_proc_what_ps_says_is_not_for_the_client(place: Place, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = (
        "import mcpproxy.relay.processes as p; p.PROC = '/nonexistent'; from mcpproxy.__main__ import main; main()"
    )
    for ps in (None, "#!/bin/sh\necho 'ps: unknown option' >&2\nexit 1\n", "#!/bin/sh\necho a b c d\n"):
        if ps is not None:
            (tmp_path / "bin/ps").write_text(ps)
            (tmp_path / "bin/ps").chmod(0o700)
        capture = tmp_path / f"{os.urandom(4).hex()}.mcpcap"
        command = [place.python, "-P", "-c", program, "run", "--capture", str(capture), "--", *peer("stubborn")]
        session = place.start(command, direct=True, environment=place.environment | {"PATH": str(tmp_path / "bin")})
        session.next_report()
        session.process.terminate()
        session.close_stdin()
        session.end()
        assert session.errors() == b""
