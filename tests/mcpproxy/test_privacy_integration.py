"""What a capture holds and what it must not hold: secrets of command line and environment; and who may read it."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.reading import Reading

CANARIES = {
    "TOKEN": "canary-plain-0001",
    "DATABASE_URL": "postgres://user:canary-in-url-0002@host/db",
    "BASE64": "Y2FuYXJ5LWJhc2U2NC0wMDAz",
    "JSON": '{"key":"canary-in-json-0004"}',
    "LINES": "canary-line-0005\ncanary-line-0006",
}
WORDS = [
    "--token",
    "canary-word-0007",
    "--token=canary-equals-0008",
    "-pcanary-short-0009",
    "KEY=canary-assigned-0010",
    "https://user:canary-userinfo-0011@host/?key=canary-query-0012",
    "Authorization: Bearer canary-header-0013",
    "canary-bare-0014",
]


def recorded(place: Path, words: list[str], environment: dict[str, str]) -> Path:
    """Record a session of `true`, which accepts any arguments; returns the capture."""
    capture = place / f"{len(list(place.glob('*.mcpcap')))}.mcpcap"
    run = [sys.executable, "-m", "mcpproxy", "run", "--capture", str(capture), "--", "true", *words]
    subprocess.run(run, check=True, env={"HOME": str(place), "PATH": "/usr/bin:/bin", **environment})
    return capture


def test_no_secret_of_command_line_or_environment_lands_in_a_capture(tmp_path: Path) -> None:
    capture = recorded(tmp_path, WORDS, CANARIES)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert b"canary" not in data
            assert b"Y2FuYXJ5" not in data
    header = json.loads(capture.read_bytes().split(b"\n")[0])
    assert header["argv"][:2] == ["true", "--token"]
    assert set(header["env"]) >= set(CANARIES)


def test_equal_secrets_stay_equal_across_captures_of_one_user_and_no_further(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()

    def hashes(place: Path, secret: str) -> tuple[str, str]:
        header = json.loads(recorded(place, [secret], {"TOKEN": secret}).read_bytes().split(b"\n")[0])
        return header["argv"][1], header["env"]["TOKEN"]

    first, again, other = (hashes(tmp_path / "ours", secret) for secret in ("canary-a", "canary-a", "canary-b"))
    assert first == again
    assert first[0] == first[1]
    assert first != other
    assert hashes(tmp_path / "theirs", "canary-a") != first


def test_servers_that_one_client_starts_are_known_to_be_of_one_session_of_it(tmp_path: Path) -> None:
    def session_of(session: str, name: str) -> object:
        capture = recorded(tmp_path, [name], {"CLAUDE_CODE_SESSION_ID": session, "OWN": name})
        reading = Reading(capture)
        for _ in reading.to_end():
            pass
        assert session not in str(dict(reading.fold.environment))
        return reading.fold.environment["CLAUDE_CODE_SESSION_ID"]

    one, same, other = session_of("5e55-a", "files"), session_of("5e55-a", "search"), session_of("5e55-b", "files")
    assert one == same != other


def test_bodies_are_stored_and_the_readme_says_so(tmp_path: Path) -> None:
    capture = tmp_path / "bodies.mcpcap"
    run = [sys.executable, "-m", "mcpproxy", "run", "--capture", str(capture), "--", "cat"]
    body = b'{"jsonrpc":"2.0","method":"x","params":{"password":"canary-body-0015"}}\n'
    subprocess.run(run, check=True, input=body, stdout=subprocess.DEVNULL, env={"HOME": str(tmp_path), "PATH": "/bin"})
    assert b"canary-body-0015" in capture.read_bytes()
    assert "Bodies are stored in plain text" in (Path(__file__).parents[2] / "README.md").read_text("utf-8")


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_other_users_cannot_read_captures(tmp_path: Path, umask: str) -> None:
    script = f'umask {umask}; exec "$0" -m mcpproxy run -- true'
    subprocess.run(
        ["sh", "-c", script, sys.executable], check=True, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    )
    ours = [path for root in (".local/share/mcpproxy", ".config/mcpproxy") for path in (tmp_path / root).rglob("*")]
    assert {path.name for path in ours} >= {"captures", "key", ".gitignore"}
    for path in ours:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
