"""`mcpproxy scan` as typed: masked secrets, their locations, and an exit code for CI."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.sharing.written import written

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture with the same token in two frames, and an e-mail address."""
    path = tmp_path / "leaky.mcpcap"
    content = [{"type": "text", "text": f"{TOKEN} of marta@acme-corp.io"}]
    messages = [("s2c", {"id": number, "result": {"content": content}}) for number in (2, 3)]
    path.write_bytes(b"".join(written(messages)))
    return path


def test_likely_secrets_are_listed_masked_once_for_each_place(capture: Path) -> None:
    done = mcpproxy("scan", capture)
    assert done.returncode == 1
    text = done.stdout.decode()
    assert f"{capture}: 2 likely secrets at 1 place\n" in text
    (row,) = text.splitlines()[1:]
    assert row.split()[:2] == ["frame", "4"]
    assert "ghp_… 40 characters, at /result/content/0/text (2 times)" in row
    assert TOKEN not in text
    assert "marta" not in text


def test_json_and_personal_data(capture: Path) -> None:
    done = mcpproxy("scan", "--json", "--personal", capture)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert {row["kind"] for row in rows} >= {"email"}
    (token,) = (row for row in rows if row["length"] == len(TOKEN))
    assert (token["frame"], token["record"], token["pointer"]) == (4, "frame", "/result/content/0/text")
    assert (token["begins"], token["times"]) == ("ghp_…", 2)


def test_what_is_known_from_elsewhere_is_listed_as_share_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "leaky.mcpcap"
    arguments = {"password": "Tr0ub4dor&3", "url": "https://db8.acme-corp.io/x", "file": "/home/kowalska/x"}
    encoded = b64encode(b"it is Tr0ub4dor&3 there").decode()
    path.write_bytes(
        b"".join(
            written(
                [
                    ("s2c", {"id": 1, "result": {"text": "Log in with Tr0ub4dor&3. Host db8.acme-corp.io is up"}}),
                    ("c2s", {"id": 2, "method": "tools/call", "params": {"name": "a", "arguments": arguments}}),
                    ("s2c", {"id": 2, "result": {"log": f"/home/kowalska: {encoded}"}}),
                ]
            )
        )
    )
    first, *rows = mcpproxy("scan", path).stdout.decode().splitlines()
    assert first == f"{path}: 3 likely secrets at 3 places"
    assert [row.split()[2] for row in rows] == ["known-value", "named-secret", "known-value-in-base64"]
    first = mcpproxy("scan", "--personal", path).stdout.decode().splitlines()[0]
    assert first == f"{path}: 3 likely secrets and 4 personal details at 7 places"


def test_a_clean_capture_is_fine_and_an_unreadable_one_is_not(capture: Path, tmp_path: Path) -> None:
    clean = tmp_path / "clean.mcpcap"
    clean.write_bytes(b"".join(written([])))
    done = mcpproxy("scan", clean)
    assert (done.returncode, done.stdout.decode()) == (
        0,
        f"{clean}: no likely secrets found; no scan finds every secret, so review the capture before you publish it\n",
    )
    assert mcpproxy("scan", capture, tmp_path / "missing.mcpcap").returncode == 2


def test_damage_is_not_called_clean(tmp_path: Path) -> None:
    path = tmp_path / "broken.mcpcap"
    header, *rest = written([])
    path.write_bytes(b"".join((header, TOKEN.encode() + b"\n", *rest)))
    for argument, name, stdin in ((path, str(path), b""), ("-", "stdin", path.read_bytes())):
        done = mcpproxy("scan", argument, stdin=stdin)
        assert done.returncode == 2
        assert done.stderr.decode() == (
            f"mcpproxy: {name} is damaged: unreadable parts were not scanned; `mcpproxy verify` lists the damage\n"
        )


def test_what_is_no_frame_is_not_called_one(tmp_path: Path) -> None:
    path = tmp_path / "header.mcpcap"
    path.write_bytes(b"".join(written([], name=TOKEN)))
    (row,) = mcpproxy("scan", path).stdout.decode().splitlines()[1:]
    assert row.split()[:2] == ["record", "0"]


def test_hostile_names_of_members_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "hostile.mcpcap"
    path.write_bytes(b"".join(written([("s2c", {"id": 2, "result": {"\x1b[31m\n": TOKEN}})])))
    done = mcpproxy("scan", path)
    assert b"\x1b" not in done.stdout
    assert len(done.stdout.splitlines()) == 2
