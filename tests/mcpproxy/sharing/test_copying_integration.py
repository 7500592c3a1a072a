"""Copies of captures: sound, with the same numbers and segments, and byte for byte the same where nothing is secret."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest
from orjson import loads

from analysis.filter import parse
from analysis.reading import Reading
from captures.errors import CannotCreate, CaptureError
from captures.exact_judge import judge_exactly
from captures.frame import Frame
from captures.integrity import inspect_file
from captures.reader import Capture, read_frames
from captures.record import MAX_RAW_BYTES, decode, frame_members, members, part_members, seal
from mcpproxy.sharing import ShareOptions, redacted_copy
from mcpproxy.sharing.account import RedactionAccount
from mcpproxy.sharing.choices import ShareChoices
from mcpproxy.sharing.copying import Copier
from mcpproxy.sharing.frames import FrameRedactor
from mcpproxy.sharing.kingfisher import catalogue
from mcpproxy.sharing.pseudonyms import PseudonymGenerator
from mcpproxy.sharing.records import RecordRedactor
from mcpproxy.sharing.redaction import Redactor
from mcpproxy.sharing.scan import likely_secrets
from tests.mcpproxy.cli.test_hostile_captures_integration import made_up
from tests.mcpproxy.sharing.written import HEADER, written

pytestmark = pytest.mark.usefixtures("secret_rules")

CORPUS = Path(__file__).parents[2] / "corpus" / "captures"
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5"


def frames(path: Path) -> list[Frame]:
    """The frames of a capture, without a block that is in it twice."""
    found: list[Frame] = []
    for item in read_frames(Capture(path)):
        if isinstance(item, Frame) and (not found or item.seq > found[-1].seq):
            found.append(item)
    return found


@pytest.mark.costly("it shares the whole corpus")
def test_every_capture_of_the_corpus_is_copied_soundly(tmp_path: Path) -> None:
    refused = {"empty", "newer-format", "not-a-capture"}
    for path in sorted(CORPUS.glob("*.mcpcap")):
        name = path.name.split(".")[0]
        copy = tmp_path / f"{path.name.removesuffix('.mcpcap').replace('.', '-')}.mcpcap"
        if name in refused:
            with pytest.raises(CaptureError):
                redacted_copy(path, copy)
            assert not copy.exists(), path
            continue
        account = redacted_copy(path, copy)
        before, after = inspect_file(path), inspect_file(copy)
        assert after.state in ("complete", "incomplete"), (path, after)
        assert (after.last_seq, after.is_redacted) == (before.last_seq, True), path
        assert (account.hidden_findings, account.created_findings) == ({}, {}), path
        assert [(frame.seq, frame.t_ns, frame.dir) for frame in frames(copy)] == [
            (frame.seq, frame.t_ns, frame.dir) for frame in frames(path)
        ], path


def test_segments_stay(tmp_path: Path) -> None:
    for name in ("two-segments.mcpcap", "two-segments.2.mcpcap", "ring.3.mcpcap", "ring.4.mcpcap"):
        shutil.copy(CORPUS / name, tmp_path)
    account = redacted_copy(tmp_path / "two-segments.mcpcap", tmp_path / "two.mcpcap")
    assert account.path == tmp_path / "two.mcpcap"
    assert [path.name for path in Capture(tmp_path / "two.mcpcap").segments] == ["two.mcpcap", "two.2.mcpcap"]
    redacted_copy(tmp_path / "ring.3.mcpcap", tmp_path / "rest.mcpcap")
    assert [path.name for path in Capture(tmp_path / "rest.mcpcap").segments] == ["rest.mcpcap", "rest.4.mcpcap"]
    before, after = inspect_file(tmp_path / "ring.3.mcpcap"), inspect_file(tmp_path / "rest.mcpcap")
    assert (after.state, after.first_seq, after.missing) == (before.state, before.first_seq, 0)
    assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("r*st*.mcpcap")} == {"0o600"}


def test_frames_without_secrets_are_the_same_bytes(tmp_path: Path) -> None:
    odd = [
        b'{ "jsonrpc" : "2.0",\t"id":2 ,"result":{"a":1e2,"a":0.10,"b":"\\u00e9\\/x"}}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":3,"result":{}}',
        b'{"jsonrpc":"2.0","id":4,"result":{}} {"jsonrpc":"2.0","id":5,"result":{}}',
        b'{"jsonrpc":"2.0","id":12345678901234567890,"result":{"x":NaN,"s":"\\ud800"}}',
        b"   ",
        b"Content-Length: 119\r",
    ]
    original, copy = tmp_path / "original.mcpcap", tmp_path / "copy.mcpcap"
    original.write_bytes(b"".join(written([("s2c", raw) for raw in odd])))
    redacted_copy(original, copy)
    assert [frame.raw for frame in frames(copy)] == [frame.raw for frame in frames(original)]


def test_only_the_secret_changes_in_a_frame(tmp_path: Path) -> None:
    raw = b'{ "jsonrpc":"2.0", "id":2,\t"result":{"a":"\\u00e9 %b \\/","a" : [1.50, true]}}' % TOKEN.encode()
    original, copy = tmp_path / "original.mcpcap", tmp_path / "copy.mcpcap"
    original.write_bytes(b"".join(written([("s2c", raw)])))
    redacted_copy(original, copy)
    before, after = raw.split(TOKEN.encode())
    new = frames(copy)[-1].raw
    assert new.startswith(before)
    assert new.endswith(after)
    assert new[len(before) : -len(after)].startswith(b"hmac:")


def test_types_stay_and_equal_secrets_are_equal(tmp_path: Path) -> None:
    result = {"card": 4539148803436467, "pin": 7391, "n": 5, "password": "x9!kqq", "ok": True, "none": None}
    text = json.dumps({**result, "list": [TOKEN, TOKEN, "marta@acme-corp.io", "/home/marta/a", "marta"]})
    messages = [("s2c", {"id": 2, "result": {**result, "content": [{"type": "text", "text": text}]}})]
    original, copy = tmp_path / "original.mcpcap", tmp_path / "copy.mcpcap"
    original.write_bytes(b"".join(written(messages)))
    redacted_copy(original, copy)
    new = json.loads(frames(copy)[-1].raw)["result"]
    inner = json.loads(new["content"][0]["text"])
    assert type(new["card"]) is int
    assert len(str(new["card"])) == 16
    assert new["card"] != result["card"]
    assert (type(new["pin"]), new["n"], new["ok"], new["none"]) == (int, 5, True, None)
    assert {name: inner[name] for name in result} == {name: new[name] for name in result}
    first, second, mail, home, name = inner["list"]
    assert first == second != TOKEN
    assert home == f"/home/{name}/a"
    assert mail.startswith(f"{name[:5]}")
    assert mail.endswith(".invalid")


def test_a_frame_in_parts_keeps_its_parts_and_its_meaning(tmp_path: Path) -> None:
    text = "prose " * 250_000 + TOKEN + " more" * 100_000
    raw = json.dumps({"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": text}]}}).encode()
    cut = raw.index(TOKEN.encode()) + 5
    pieces = [raw[:MAX_RAW_BYTES], raw[MAX_RAW_BYTES:cut], raw[cut:]]
    lines = written([("c2s", {"id": 2, "method": "tools/call", "params": {"name": "a"}})])[:-1]
    for number, piece in enumerate(pieces, 1):
        lines.append(seal(len(lines), len(lines), "part", part_members("s2c", number, piece)))
        lines.append(seal(len(lines), len(lines), "frame", frame_members("c2s", b"{}", judge_exactly(b"{}"))))
    giant = frame_members("s2c", b"", judge_exactly(raw), parts=(len(pieces), len(raw)))
    lines.append(seal(len(lines), len(lines), "frame", giant))
    original, copy = tmp_path / "original.mcpcap", tmp_path / "copy.mcpcap"
    original.write_bytes(b"".join(lines))
    account = redacted_copy(original, copy)
    frame = frames(copy)[-1]
    assert (frame.verdict.kind, frame.verdict.id, frame.whole) == ("response", b"2", True)
    assert TOKEN.encode() not in frame.raw
    assert len(frame.raw) == len(raw) - len(TOKEN) + len("hmac:0123456789abcdef")
    assert account.changed_frames == []
    assert [json.loads(line)["seq"] for line in copy.read_bytes().splitlines()] == list(range(len(lines)))


def test_parts_that_cannot_wait_are_replaced_each_by_itself() -> None:
    lines = [seal(0, 0, "header", members(**HEADER))]
    for number in (1, 2):
        lines.append(seal(number, number, "part", part_members("s2c", number, b'{"a":"' + TOKEN.encode())))
    giant = frame_members("s2c", b"", judge_exactly(b""), parts=(2, 2 * (6 + len(TOKEN))))
    lines.append(seal(3, 3, "frame", giant))
    redactor = Redactor(PseudonymGenerator(), catalogue(), ShareChoices(), bodies=True, unparsed=False)
    account = RedactionAccount(Path("copy"))
    copier = Copier(FrameRedactor(redactor, keep_unparsed=False), RecordRedactor(redactor), account, Reading(), held=10)
    records = [record for line in lines if (record := decode(line[:-1], 0, loads)) is not None]
    copied = [line for _, line in copier.lines(records)]
    assert len(copied) == 4
    assert TOKEN.encode() not in b"".join(copied)
    assert account.changed_frames == [3]


def test_if_it_cannot_be_finished_nothing_is_left(tmp_path: Path) -> None:
    original = tmp_path / "original.mcpcap"
    original.write_bytes(b"".join(written([("s2c", {"id": 2, "result": {"x": TOKEN}})])))

    def refuse(_kind: str, _secret: str, _path: object) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        redacted_copy(original, tmp_path / "copy.mcpcap", ShareOptions(ShareChoices(review=refuse)))
    assert os.listdir(tmp_path) == ["original.mcpcap"]
    (tmp_path / "copy.mcpcap").symlink_to(tmp_path / "elsewhere.mcpcap")
    with pytest.raises(CannotCreate):
        redacted_copy(original, tmp_path / "copy.mcpcap")
    assert sorted(os.listdir(tmp_path)) == ["copy.mcpcap", "original.mcpcap"]


def check_whatever(seeds: int, tmp_path: Path) -> None:
    """Copy so many captures made at random."""
    original = tmp_path / "made-up.mcpcap"
    for seed in range(seeds):
        original.write_bytes(made_up(random.Random(seed)))
        copy = tmp_path / f"copy-{seed}.mcpcap"
        only = parse("kind:request") if seed % 3 == 0 else None
        try:
            redacted_copy(
                original,
                copy,
                ShareOptions(keeps_unparsed=seed % 2 == 0, keeps_bodies=seed % 5 > 0, message_filter=only),
            )
            assert list(likely_secrets(Capture(copy))) is not None
        except CaptureError:
            assert not copy.exists()


def test_whatever_a_capture_holds_it_is_copied_or_refused_and_searched(tmp_path: Path) -> None:
    check_whatever(20, tmp_path)


@pytest.mark.soak
def test_whatever_a_thousand_captures_hold_they_are_copied_or_refused_and_searched(tmp_path: Path) -> None:
    check_whatever(1000, tmp_path)


def test_the_header_says_that_it_is_a_copy_and_names_nobody(tmp_path: Path) -> None:
    original, copy = tmp_path / "original.mcpcap", tmp_path / "copy.mcpcap"
    header = {
        "argv": ["/home/marta/.nvm/bin/npx", "-y", "@modelcontextprotocol/server-filesystem", "--root", "/srv/acme"],
        "cwd": "/home/marta/acme",
        "env": {"ACME_KEY": "hmac:0011223344556677"},
        "parents": [{"pid": 7, "start": 9, "exe": "acme-ide"}],
        "boot_id": "0d3f6a5e-9b1c-4d72-80aa-55ff13579bdf",
    }
    original.write_bytes(b"".join(written([], **header)))
    redacted_copy(original, copy)
    new = Capture(copy).header.members
    assert new["argv"][:4] == ["npx", "-y", "@modelcontextprotocol/server-filesystem", "--root"]
    assert new["redacted_by"].startswith("mcpproxy ")
    assert {"bodies", "env", "cwd", "parents"} <= set(new["redactions"])
    assert (new["parents"][0]["pid"], new["wall_ns"], new["name"]) == (7, HEADER["wall_ns"], "srv")
    assert new["capture"] != HEADER["capture"]
    assert len(new["boot_id"]) == 36
    assert [word for word in ("marta", "acme", "ACME", "00112233", "0d3f6a5e") if word in copy.read_text("utf-8")] == []
