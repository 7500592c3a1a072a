"""The name of a machine: what sets it, and how much of it leaves the machine."""

import json
import os
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from captures.reader import Capture
from tests.harness import ROOT, Place, peer
from tests.mcpproxy.cli.typed import mcpproxy
from tests.rows import row

PING = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}\n'


def recorded(place: Place, *options: str, **variables: str) -> Path:
    """Write a capture of one call."""
    command = [place.python, "-P", "-m", "mcpproxy", "run", "--name", "echo", *options, "--", *peer("echo")]
    session = place.start(command, direct=True, environment=place.environment | variables)
    session.send(PING)
    session.line()
    session.close_stdin()
    assert (session.end(), session.errors()) == (0, b"")
    return place.newest()


def machine(path: Path) -> tuple[object, object]:
    header = Capture(path).header.members
    return header.get("machine"), header.get("machine_chosen")


def test_it_is_chosen_or_the_host_name(place: Place) -> None:
    assert machine(recorded(place)) == (os.uname().nodename, None)
    assert machine(recorded(place, MCPPROXY_MACHINE="Büro 2")) == ("Büro 2", True)
    assert machine(recorded(place, MCPPROXY_MACHINE="")) == (os.uname().nodename, None)
    assert machine(recorded(place, "--machine", "ci-7", MCPPROXY_MACHINE="other")) == ("ci-7", True)
    assert machine(recorded(place, f"--machine={'x' * 64}")) == ("x" * 64, True)


def test_a_name_that_cannot_be_one_is_wrong_usage(place: Place) -> None:
    """Each name is tried both typed and in the environment; one name is tried with every command."""
    commands = (
        ("run", "--if-unrecordable=pass", "--", "false"),
        ("install", "--all"),
        ("serve", "http://127.0.0.1:9/"),
        ("up",),
        ("ship", "lake"),
    )
    names = ["x" * 65, "   ", "a\tb", "\u202e", "\udcff", "a\x1b[2J"]
    for name in names:
        for command, *rest in commands if name == names[-1] else commands[:2]:
            ways: tuple[tuple[list[str], Any], ...] = (([f"--machine={name}"], {}), ([], {"MCPPROXY_MACHINE": name}))
            for words, variables in ways:
                if command == "ship" and variables:
                    continue  # it ignores the environment
                with row((name, command, variables)):
                    done = mcpproxy(command, *words, *rest, cwd=place.root, HOME=str(place.root), **variables)
                    assert (done.returncode, done.stdout) == (2, b"")
                    (line,) = done.stderr.decode().splitlines()
                    assert "must be 1 to 64 printable characters" in line
                    assert "\x1b" not in line


def test_share_keeps_a_chosen_name_and_replaces_a_host_name(place: Place, tmp_path: Path) -> None:
    for options, expected in (((), None), (("--machine", "office"), ("office", True))):
        copy = tmp_path / f"copy{len(options)}.mcpcap"
        assert mcpproxy("share", recorded(place, *options), "-o", copy).returncode == 0
        if expected is not None:
            assert machine(copy) == expected
        else:
            assert re.fullmatch(r"host-[0-9a-f]{8}\.invalid", str(machine(copy)[0]))
            assert os.uname().nodename.encode() not in copy.read_bytes()


def shipped(place: Place, lake: Path, home: Path, *arguments: str | Path) -> None:
    done = mcpproxy("ship", lake, *arguments, HOME=str(home), XDG_CONFIG_HOME=str(home / "config"))
    assert done.returncode == 0, done.stderr


def machines(lake: Path) -> list[str | None]:
    with duckdb.connect() as connection:
        found = connection.execute(f"select machine from '{lake}/captures/*/*.parquet' order by all").fetchall()
    return [name for (name,) in found]


def test_a_host_name_leaves_as_a_hash_that_is_equal_for_all_captures_of_a_machine(place: Place, tmp_path: Path) -> None:
    one, two, chosen = recorded(place), recorded(place), recorded(place, "--machine", "office")
    shipped(place, tmp_path / "lake", tmp_path, "--raw", one, two, chosen)
    first, second, last = machines(tmp_path / "lake")
    assert (last, first) == ("office", second)
    assert re.fullmatch(r"hmac:[0-9a-f]{16}", str(first))
    assert all(os.uname().nodename.encode() not in path.read_bytes() for path in (tmp_path / "lake").rglob("*.mcpcap"))
    # Under another user's key, the hash differs.
    (tmp_path / "other").mkdir()
    shipped(place, tmp_path / "lake2", tmp_path / "other", one)
    assert machines(tmp_path / "lake2") != [first]


@pytest.mark.parametrize("how", ["redacted", "unredacted"])
def test_ship_takes_a_name_for_all(place: Place, tmp_path: Path, how: str) -> None:
    more = ["--unredacted"] if how == "unredacted" else []
    captures = [recorded(place), recorded(place, "--machine", "office")]
    shipped(place, tmp_path / "lake", tmp_path, *more, *captures)
    shipped(place, tmp_path / "lake", tmp_path, *more, "--machine", "it's 3", *captures)
    assert machines(tmp_path / "lake") == ["it's 3", "it's 3"]
    shipped(place, tmp_path / "lake2", tmp_path, "--unredacted", *captures)
    assert machines(tmp_path / "lake2") == sorted([os.uname().nodename, "office"])


def test_which_machine_is_slow_is_one_query_over_a_fleet(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        options = ("--machine", f"box {number}") if number < 3 else ()
        (tmp_path / f"{number}").mkdir()
        shipped(place, tmp_path / "lake", tmp_path / f"{number}", recorded(place, *options))
    page = (ROOT / "docs/scale.md").read_text("utf-8")
    (query,) = (
        text for text in re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "machine" in text
    )
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as connection:
        found = connection.execute(query).fetchall()
    assert len({name for name, *_ in found}) == 5
    assert {"box 0", "box 1", "box 2"} < {name for name, *_ in found}
    assert [count for _, count, *_ in found] == [1] * 5


def test_install_writes_it_and_brings_its_own_entries_up_to_date(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    config = tmp_path / ".cursor/mcp.json"
    config.write_text(json.dumps({"mcpServers": {"one": {"command": "cat"}, "two": {"command": "cat", "args": ["-"]}}}))
    before = config.read_bytes()

    def install(*words: str, **variables: Any) -> None:
        done = mcpproxy("install", "cursor", *words, cwd=tmp_path, HOME=str(tmp_path), **variables)
        assert (done.returncode, done.stderr) == (0, b"")

    def words(name: str) -> list[str]:
        found: list[str] = json.loads(config.read_text())["mcpServers"][name]["args"]
        return found

    install()
    install("--machine", "it is mine")
    assert words("one") == ["run", "--machine=it is mine", "--name", "one", "--if-unrecordable=pass", "--", "cat"]
    install(MCPPROXY_MACHINE="ci")
    assert words("two") == ["run", "--machine=ci", "--name", "two", "--if-unrecordable=pass", "--", "cat", "-"]
    install()
    assert words("two")[1] == "--machine=ci"
    assert mcpproxy("uninstall", "--all", cwd=tmp_path, HOME=str(tmp_path)).returncode == 0
    assert config.read_bytes() == before
    install("--machine", "a b")
    assert words("one") == ["run", "--name", "one", "--machine", "a b", "--if-unrecordable=pass", "--", "cat"]
    install("--machine", "c")
    assert words("one")[4] == "c"
