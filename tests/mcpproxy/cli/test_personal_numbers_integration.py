"""`--personal` of `share` and `scan` as typed: telephone numbers, bank accounts and MAC addresses."""

import base64
import json
from pathlib import Path

import pytest

from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.sharing.written import written

PHONE, MOBILE, IBAN, MAC = "+49 30 901820", 4915112345678, "DE89 3704 0044 0532 0130 00", "00:1a:2b:3c:4d:5e"
KINDS = {"phone-number", "iban", "mac-address"}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A result with each of them as text, as a number and in base64."""
    text = f"Call {PHONE}, pay to {IBAN}, device {MAC}."
    spoken = base64.b64encode(text.encode()).decode()
    result = {"content": [{"type": "text", "text": text}], "structuredContent": {"mobile": MOBILE, "b": spoken}}
    path = tmp_path / "personal.mcpcap"
    path.write_bytes(b"".join(written([("s2c", {"id": 2, "result": result}), ("s2c", {"id": MAC, "result": {}})])))
    return path


def test_share_replaces_them_only_on_request(capture: Path) -> None:
    plain, redacted = capture.parent / "plain.mcpcap", capture.parent / "redacted.mcpcap"
    assert mcpproxy("share", capture, "-o", plain).returncode == 0
    for value in (PHONE, str(MOBILE), IBAN, MAC):
        assert value in plain.read_text("utf-8"), value
    done = mcpproxy("share", capture, "-o", redacted, "--personal", "--json")
    assert done.returncode == 0
    kinds = {row["what"] for row in json.loads(done.stdout)["replaced"]}
    assert kinds >= {*KINDS, "personal-in-base64"}
    copy = redacted.read_text("utf-8")
    for value in (PHONE, str(MOBILE), IBAN, base64.b64encode(PHONE.encode()).decode()):
        assert value not in copy, value
    assert copy.count(MAC) == 2, "the id of a message stays, in its bytes and in the record"
    assert "Call +99 9" in copy
    assert "pay to XX00 " in copy
    assert "device 02:00:5e:" in copy
    again = mcpproxy("scan", "--personal", "--json", redacted)
    assert {json.loads(row)["kind"] for row in again.stdout.splitlines()} & KINDS == set()


def test_scan_lists_them_only_on_request(capture: Path) -> None:
    assert mcpproxy("scan", capture).returncode == 0
    done = mcpproxy("scan", "--personal", "--json", capture)
    assert done.returncode == 1
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    found = {row["kind"]: row["pointer"] for row in rows if row["pointer"] != "/result/structuredContent/mobile"}
    assert found.keys() >= {*KINDS, "personal-in-base64"}
    assert {found[kind] for kind in KINDS} == {"/result/content/0/text"}
    assert {row["kind"] for row in rows if row["pointer"] == "/result/structuredContent/mobile"} == {"phone-number"}
