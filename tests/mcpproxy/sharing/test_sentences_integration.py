"""Secrets at the end of a sentence: its punctuation belongs to none of them, and hides none of them."""

import json
from pathlib import Path

import pytest

from captures.frame import Frame
from captures.reader import Capture, assembled_items
from mcpproxy.sharing import redacted_copy
from tests.mcpproxy.sharing.written import written

pytestmark = pytest.mark.usefixtures("secret_rules")

ENDS = (
    ". Then",
    ".\nThen",
    ".",
    "! Then",
    "?",
    "; then",
    ": then",
    ".) Then",
    '." Then',
    "...",
    ", then",
    "… Then",
    ".”",
)


def shared(folder: Path, *texts: str) -> list[str]:
    """What becomes of texts, each in a reply of its own."""
    folder.mkdir(exist_ok=True)
    original, copy = folder / "original.mcpcap", folder / "copy.mcpcap"
    sent = [("s2c", {"id": 2, "result": {"content": [{"type": "text", "text": text}]}}) for text in texts]
    original.write_bytes(b"".join(written(sent)))
    redacted_copy(original, copy)
    frames = [item for item in assembled_items(Capture(copy)) if isinstance(item, Frame)]
    return [json.loads(frame.raw)["result"]["content"][0]["text"] for frame in frames[3:]]


@pytest.mark.parametrize(
    ("revealing", "elsewhere", "secret"),
    [
        ("Write to ann@kraken-x.dev", "ann@kraken-x.dev, please", "ann@kraken-x.dev"),
        ("Write to ann@mail.kraken-x.co.uk", "ann@mail.kraken-x.co.uk, please", "ann@mail.kraken-x.co.uk"),
        ("Your home is /home/rstein", "You are rstein today", "rstein"),
        ("Your home is C:\\Users\\rstein", "You are RSTEIN today", "RSTEIN"),
        ("Your password: hunter2-Moth9", "use hunter2-Moth9 to log in", "hunter2-Moth9"),
        ("GITHUB_TOKEN=abcd1234efgh5678ijkl", "it is abcd1234efgh5678ijkl now", "abcd1234efgh5678ijkl"),
        ("Send Bearer abcDEF123456ghiJKL789", "it is abcDEF123456ghiJKL789 now", "abcDEF123456ghiJKL789"),
        ("see https://db8.nordfisk.io", "host db8.nordfisk.io is up", "db8.nordfisk.io"),
        ("see https://db8.nordfisk.io/a?key=Zx8823451qAb77Qr", "key Zx8823451qAb77Qr", "Zx8823451qAb77Qr"),
        ("it runs on db8.internal", "host db8.internal is up", "db8.internal"),
        ("export ACME_KEY=Zx8823451qAb77Qr", "key Zx8823451qAb77Qr", "Zx8823451qAb77Qr"),
        ("mysql -u root -phunter2-Moth9", "use hunter2-Moth9 on x", "hunter2-Moth9"),
    ],
)
def test_a_secret_is_the_same_at_the_end_of_a_sentence(
    tmp_path: Path, revealing: str, elsewhere: str, secret: str
) -> None:
    for number, end in enumerate(ENDS):
        for order, last in enumerate((f"Look: {revealing}{end}", f"Look: ({revealing}){end}")):
            texts = shared(tmp_path / f"{number}{order}", last, elsewhere, f"I know {secret}{end}", f"{secret}{end}")
            plain = secret.lower()
            assert [text for text in texts if plain in text.lower()] == [], end
            before, _, after = elsewhere.partition(secret)
            pseudonym = texts[1].removeprefix(before).removesuffix(after)
            assert texts[2:] == [f"I know {pseudonym}{end}", f"{pseudonym}{end}"]
            assert texts[0].endswith(end), end
            assert pseudonym in texts[0], end


def test_a_user_is_found_before_a_full_stop_and_between_dashes(tmp_path: Path) -> None:
    path, *texts = shared(
        tmp_path,
        "/home/mkowalski/notes",
        "done; user mkowalski. The tokens",
        "by mkowalski...",
        "x--mkowalski--y",
        "_mkowalski_",
    )
    user = path.split("/")[2]
    assert texts == [f"done; user {user}. The tokens", f"by {user}...", f"x--{user}--y", f"_{user}_"]


def test_punctuation_within_quotes_or_before_a_delimiter_belongs_to_a_password(tmp_path: Path) -> None:
    for text in (
        '"password": "hunter22!"',
        "password='hunter22!'",
        "<password>hunter22!</password>",
        "https://a:hunter22!@x.org",
    ):
        (new,) = shared(tmp_path / "x", f"Look: {text} there")
        assert "!" not in new, text
        (tmp_path / "x" / "copy.mcpcap").unlink()


def test_a_password_with_an_exclamation_mark_does_not_hide_the_host(tmp_path: Path) -> None:
    new, host = shared(
        tmp_path,
        "postgres://svc:Zk8-vQ2!q@db8.nordfisk.io:5432/x, and postgres://svc:Zk!q@db8.nordfisk.io",
        "db8.nordfisk.io",
    )
    assert new.count(host) == 2
    assert f"@{host}:5432/x" in new


def test_a_placeholder_stays_before_a_full_stop(tmp_path: Path) -> None:
    text = "Send Bearer YOUR_ACME_API_KEY. Or see https://github.com! Then https://localhost."
    assert shared(tmp_path, text) == [text]
