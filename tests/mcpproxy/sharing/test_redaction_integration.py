"""What counts as a secret in a text or a document, what does not, and that no text takes long."""

import base64
import json
import sys
import time
import tracemalloc
from pathlib import Path
from types import FrameType

import pytest

import mcpproxy.sharing.frames as sharing_frames
from captures import exact_judge
from captures.limits import MAX_STRUCTURAL_CHARS
from mcpproxy.sharing import redaction, search
from mcpproxy.sharing.choices import ShareChoices
from mcpproxy.sharing.encodings import decoded_base64
from mcpproxy.sharing.frames import FrameRedactor
from mcpproxy.sharing.kingfisher import catalogue
from mcpproxy.sharing.patterns import personal_data
from mcpproxy.sharing.pseudonyms import PseudonymGenerator
from mcpproxy.sharing.redaction import Redactor, Replacement
from mcpproxy.sharing.search import SecretSearch


@pytest.fixture(scope="module")
def redactor(secret_rules: None) -> Redactor:
    """One that replaces by default."""
    return Redactor(PseudonymGenerator(bytes(32)), catalogue(), ShareChoices(), bodies=True, unparsed=False)


@pytest.mark.parametrize(
    "text",
    [
        "token: a string that identifies the caller",
        "Set password to the password of the account; the secret is required.",
        "progressToken=5, maxTokens: 4096, tokens: 12345678",
        "see https://modelcontextprotocol.io/specification/2025-11-25/basic and https://json-schema.org/draft/2020-12/schema",
        "http://localhost:3000/mcp?page=2 and http://127.0.0.1:8080/x and [::1]:80",
        "version 1.2.3 of 2026-11-24T10:15:00.123456789Z at 1700000000000",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0bb27f4e3a5b6c7d8e9f00",
        "550e8400-e29b-41d4-a716-446655440000",
        "git@github.com:modelcontextprotocol/servers.git",
        "data:image/png;base64,",
        "/home/user/projects, C:\\Users\\Public, /Users/shared",
        "the API key is read from the variable API_KEY=$API_KEY or from <your-key>",
        "aGVsbG8gd29ybGQsIHRoaXMgaXMgcGxhaW4gcHJvc2U=",
    ],
)
def test_prose_and_technical_words_stay(redactor: Redactor, text: str) -> None:
    made: list[Replacement] = []
    assert (redactor.redact_text(text, made), made) == (text, [])


@pytest.mark.parametrize("name", ["session", "sessionId", "session_id"])
def test_a_random_id_of_a_session_is_a_secret(redactor: Redactor, name: str) -> None:
    for value, is_secret in (
        ("9f2c4a8b1d3e5f60718293a4b5c6d7e8", True),
        ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", True),
        ("sess_8sKq2LmN4pRt6VwYb1CdEf", True),
        ("main", False),
        ("session-2", False),
        ("Keynote 2: what is new in 2026", False),
        ("introduction_to_protocols", False),
    ):
        made: list[Replacement] = []
        document = json.dumps({"result": {"structuredContent": {name: value}}})
        redacted = redactor.redact_document(document, made)
        assert (value not in redacted) is is_secret, value


@pytest.mark.parametrize(
    "front", ["\x1b[31m", "\x1b[1;32m", "\\u001b[31m", 'Result: {"log":"first\\n', '{"x":"k\\u003d', "a\\\\n"]
)
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("sk-proj-" + "aB3" * 20, "aB3aB3"),
        ("sk_live_" + "aB3dE6gH" * 3, "aB3dE6gH"),
        ("/home/alicesmith/src", "alicesmith"),
        ("postgres://svc:Q7hunter22x@db.acmecorp.io/x", "Q7hunter22x"),
    ],
)
def test_colour_codes_and_escapes_hide_no_secret(redactor: Redactor, front: str, text: str, secret: str) -> None:
    whole = f"{front}{text}\x1b[0m"
    new = redactor.redact_text(whole, [])
    assert secret not in new
    assert new.startswith(front)
    assert new.endswith("\x1b[0m")
    assert secret not in redactor.redact_document(json.dumps({"log": whole, "more": ["é", whole]}), [])


def test_a_folder_that_looks_like_an_escape_is_searched(redactor: Redactor) -> None:
    assert "nina" not in redactor.redact_text("see C:\\Users\\nina\\notes", [])


def test_documentation_stays_but_for_its_examples(redactor: Redactor) -> None:
    root = Path(__file__).parents[3]
    names = ("README.md", "captures/FORMAT.md", "docs/filter.md", "docs/architecture.md", "CONTRIBUTING.md")
    for page in [*(root / name for name in names), *(root / "docs/decisions").glob("*.md")]:
        made: list[Replacement] = []
        redactor.redact_text(page.read_text("utf-8"), made)
        assert len(made) < 5, (page, made)


def test_definitions_of_tools_stay(redactor: Redactor) -> None:
    properties = {
        "password": {"type": "string", "minLength": 8, "description": "The password"},
        "token": {"type": "string", "enum": ["bearer", "basic"], "default": "bearer"},
        "pin": {"type": "integer", "minimum": 1000},
        "auth": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/auth"}]},
    }
    schema = {"type": "object", "properties": properties, "required": ["password", "token"]}
    tool = {"name": "get_api_key", "description": "Gets a key. Needs a token.", "inputSchema": schema}
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool], "nextCursor": "eyJhIjoxfQ=="}})
    made: list[Replacement] = []
    assert (redactor.redact_document(text, made), made) == (text, [])


def test_a_redacted_text_is_not_redacted_again(redactor: Redactor) -> None:
    text = json.dumps(
        {
            "a": "postgres://app:S3cretPw@db.acme.internal:5432/x?sslkey=abcd1234",
            "password": "hunter2",
            "b": "Authorization: Bearer abcdefghij0123456789 from bob@acme.io at 10.2.3.4, /home/bob/x",
            "c": {"api_key": "xyz", "blob": "iVBORw0KGgo" * 20},
        }
    )
    once = redactor.redact_document(text, [])
    made: list[Replacement] = []
    again = redactor.redact_document(once, made)
    assert [one for one in made if one.kind != "blob"] == []
    assert again == once or {one.kind for one in made} == {"blob"}


LONG = base64.b64encode(json.dumps({"user": "x", "key": "sk_live_" + "aB3dE6gH" * 3, "more": "~~~"}).encode()).decode()
MAIL = base64.b64encode(b'{"user":"marta.kowalska@acme-corp.io","note":"about nothing at all"}').decode()


def wrapped(text: str, width: int, end: str = "\n") -> str:
    """A text in lines."""
    return end.join(text[at : at + width] for at in range(0, len(text), width))


@pytest.mark.parametrize("secret", [LONG, MAIL])
@pytest.mark.parametrize(
    ("front", "back"),
    [
        *((f"v1{mark}", "") for mark in "=:-_/+.,;"),
        ("session=a_b-", ""),
        ("prod/eu-west/1/", ""),
        ("a/b/c/d/e/f/", ""),
        ("ab-", "-tail"),
        ("", "_v2"),
        ("", ";path=/"),
    ],
)
def test_base64_next_to_punctuation_is_opened(redactor: Redactor, secret: str, front: str, back: str) -> None:
    new = redactor.redact_text(f"see {front}{secret}{back} there", [])
    assert secret[:40] not in new
    assert new.startswith(f"see {front}")
    assert new.endswith(" there")


@pytest.mark.parametrize("secret", [LONG, MAIL])
@pytest.mark.parametrize(
    ("front", "back"), [("", ""), ("cert: ", "\n"), ("the data of the certificate follows\n", "\nEnd"), ("x-", "\n\nx")]
)
def test_base64_in_lines_is_opened(redactor: Redactor, secret: str, front: str, back: str) -> None:
    for lines in (wrapped(secret, 20), wrapped(secret, 76), wrapped(secret, 64, "\r\n"), wrapped(secret, 40, "\n    ")):
        new = redactor.redact_text(front + lines + back, [])
        assert [line for line in lines.splitlines() if line.strip() in new] == []
        assert (new.startswith(front), new.endswith(back)) == (True, True)
        assert new == redactor.redact_text(new, [])
    # Where the lines are as long as a terminal is wide, the first is shorter.
    short = f"{front}{secret[:24]}\n{wrapped(secret[24:], 50)}{back}"
    assert secret[24:60] not in redactor.redact_text(short, [])
    assert secret[24:60] not in redactor.redact_text(
        f"{front}some_identifier_of_a_key\n{wrapped(secret, 60)}{back}", []
    )


def check_base64(size: int) -> None:
    """What is decoded and searched of a text that could hold base64 grows with its size, and no faster."""
    word = base64.b64encode(b"some plain words and nothing else. " * 3).decode().rstrip("=")
    units = ["QUtJQVpa", "a-", "a" * 24 + "-", f"v1-{word}_", f"{word}\n", f"{word}-\n", f"{word}\n\n", "aaaa\n"]
    text = " ".join(unit * (size // len(unit)) for unit in units)
    assert searched(text) < 12 * len(text)


@pytest.mark.usefixtures("secret_rules")
def test_each_character_of_base64_is_decoded_a_bounded_number_of_times() -> None:
    check_base64(20_000)


@pytest.mark.soak
@pytest.mark.usefixtures("secret_rules")
def test_each_character_of_much_base64_is_decoded_a_bounded_number_of_times() -> None:
    check_base64(1_250_000)


def searched(text: str) -> int:
    """How many characters are decoded, or searched once they are, while a text is searched for encoded secrets."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        if event == "call" and frame.f_code in (decoded_base64.__code__, personal_data.__code__):
            count += len(frame.f_locals["word" if frame.f_code is decoded_base64.__code__ else "text"])

    sys.setprofile(note)
    try:
        assert SecretSearch(catalogue(), ShareChoices(), blobs=False).secrets(text) == []
    finally:
        sys.setprofile(None)
    return count


HOSTILE = [
    ("one letter", "a"),
    ("addresses", "a@b."),
    ("dots", "a."),
    ("schemes", "http://"),
    ("users of a URL", "a@"),
    ("homes", "/home/"),
    ("keys", "-----BEGIN PRIVATE KEY-----"),
    ("names of secrets", "token: "),
    ("names of passwords", "passphrase: a "),
    ("cookies in cookies", "cookie:a=cookie:a=;a="),
    ("half a JWT", "eyJaaaaaaaa."),
    ("digits", "4 4"),
    ("network addresses", "1.2.3.4 "),
    ("percent signs", "%41"),
    ("base64 next to punctuation", "v1-QUtJQVpaWlpaWlpaWlpaWlpaWlo_"),
    ("base64 in lines", "QUtJQVpaWlpaWlpaWlpaWlpaWlpa\n"),
    ("base64", "QUtJQVpaWlpaWlpaWlpaWlpaWlo"),
    ("hexadecimal", "ab"),
    ("escapes, percent signs and base64", "\\n%20QUtJQVpaWlpaWlpaWlpaWlpaWlpaWlpa"),
    ("quotes", '\\"'),
    ("brackets", '{"a":'),
]


def redacting_s(redactor: Redactor, unit: str, size: int) -> float:
    """How long it takes to redact so long a text of this."""
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"v": (unit * (size // len(unit) + 1))[:size]}}).encode()
    began = time.process_time()
    FrameRedactor(redactor, keep_unparsed=False).redact_frame(raw, "s2c", "line", whole=True)
    return time.process_time() - began


@pytest.mark.costly("it redacts twenty hostile texts")
def test_time_is_linear_in_a_hostile_text(redactor: Redactor) -> None:
    for name, unit in HOSTILE:
        # Four times as much; what grows with the square takes sixteen times as long.
        small, large = redacting_s(redactor, unit, 1 << 15), redacting_s(redactor, unit, 1 << 17)
        assert large < 12 * small + 0.5, name


@pytest.mark.soak
def test_time_is_linear_in_a_long_hostile_text(redactor: Redactor) -> None:
    for name, unit in HOSTILE:
        # Both are longer than any one secret: a shorter text can be a single one, which costs less for each character.
        small, large = (min(redacting_s(redactor, unit, size) for _ in range(2)) for size in (1 << 17, 1 << 19))
        assert large < 12 * small + 0.5, name


def test_a_place_takes_little_memory(redactor: Redactor) -> None:
    places = 10_000
    text = json.dumps([f"{number:010}" for number in range(places)])
    tracemalloc.start()
    try:
        assert redactor.redact_document(text, []) == text
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / places < 250, "bytes"


def check_list_of_secrets(redactor: Redactor, most: int) -> None:
    """A list of more secrets than that is replaced whole."""
    addresses = [f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}" for index in range(most + 10)]
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"v": addresses}}).encode()
    redacted = FrameRedactor(redactor, keep_unparsed=False).redact_frame(raw, "s2c", "line", whole=True)
    assert f"more than {most:,} secrets" in redacted.unparsed_reason
    assert b"10.0.1." not in redacted.raw


def test_a_list_of_secrets_is_replaced_whole(redactor: Redactor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert search.MAX_FRAME_SECRETS == 100_000
    monkeypatch.setattr(search, "MAX_FRAME_SECRETS", 1000)
    check_list_of_secrets(redactor, 1000)


@pytest.mark.soak
def test_a_list_of_all_secrets_that_one_may_hold_is_replaced_whole(redactor: Redactor) -> None:
    check_list_of_secrets(redactor, search.MAX_FRAME_SECRETS)


def check_many_values(redactor: Redactor, most: int) -> None:
    """JSON in a string with more values than that is replaced whole, and what is not judged stays so."""
    frames = FrameRedactor(redactor, keep_unparsed=False)
    inner = json.dumps([1] * (most + 1))
    redacted = frames.redact_frame(
        b'{"jsonrpc":"2.0","id":1,"result":{"v":"%b"}}' % inner.encode(), "s2c", "line", whole=True
    )
    assert f"more than {most:,} values" in redacted.unparsed_reason
    unjudged = b'{"jsonrpc":"2.0","id":1,"result":{"v":%b}}' % inner.encode()
    redacted = frames.redact_frame(unjudged, "s2c", "line", whole=True)
    assert redacted.unparsed_reason
    assert redacted.is_same


def test_json_in_a_string_with_too_many_values_is_replaced_whole_and_unjudged_stays_so(
    redactor: Redactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert redaction.MAX_JSON_TOKENS == MAX_STRUCTURAL_CHARS == 1_000_000
    monkeypatch.setattr(redaction, "MAX_JSON_TOKENS", 10_000)
    for module in (exact_judge, sharing_frames):
        monkeypatch.setattr(module, "MAX_STRUCTURAL_CHARS", 10_000)
    check_many_values(redactor, 10_000)


@pytest.mark.soak
def test_json_in_a_string_with_a_million_values_is_replaced_whole(redactor: Redactor) -> None:
    check_many_values(redactor, redaction.MAX_JSON_TOKENS)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password: correct-horse-battery", "correct-horse-battery"),
        ("password=correct-horse-battery", "correct-horse-battery"),
        ('PASSWORD="swordfish"', "swordfish"),
        ("db_password = letmein", "letmein"),
        ("login failed: user=app password=letmein host=db", "letmein"),
        ("The password: swordfish. Keep it.", "swordfish"),
        ('answer {"password":"correct-horse"} received', "correct-horse"),
        ('password: "correct horse battery"', "correct horse battery"),
        ("passphrase: open sesame now", "open sesame now"),
        ("the passphrase: correct-horse-battery for more", "correct-horse-battery"),
        ("client_secret=letmein", "letmein"),
        ("token: abcdefgh", "abcdefgh"),
        ("auth_token=abcdefgh", "abcdefgh"),
        ("Set-Cookie: sid=s%3Aabcdef123456.xyz; Path=/; HttpOnly", "s%3Aabcdef123456.xyz"),
        ("cookie: theme=dark; sid=abcdefgh", "abcdefgh"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "EXAMPLEKEY"),
    ],
)
def test_passwords_that_are_words_go(redactor: Redactor, text: str, secret: str) -> None:
    made: list[Replacement] = []
    new = redactor.redact_text(text, made)
    assert secret not in new
    assert "hmac:" in new
    assert redactor.redact_text(new, []) == new
    assert secret not in redactor.redact_document(json.dumps({"text": text}), [])


@pytest.mark.parametrize(
    "text",
    [
        "password: The password of the user",
        "password: required, secret: optional",
        "Password: string (at least 8 characters); password is required; password must be long",
        "password: User's password",
        "passphrase: a phrase that protects the key",
        "password: out-of-date values are refused; secret: up-to-date lists",
        'The schema is {"password": {"type": "string"}, "secret": "string"}',
        '"password": "Your password must have a digit"',
        "password=${DB_PASSWORD} password=$PASS password=*** password=<password> --password=PASSWORD",
        "def login(user: str, password: str = None) -> None: ...",
        "password = getpass.getpass(); password = os.environ[name]; secret = process.env.SECRET",
        "if (password === undefined) return; if not password: raise",
        "password: Option<String>, secret::Store, password => password.trim()",
        "password: /run/secrets/db",
        "Unexpected token: identifier",
        "token: the next word",
        "const token = getToken(); nextToken: abcdefgh",
        "Cookie: name=value",
    ],
)
def test_words_about_passwords_stay(redactor: Redactor, text: str) -> None:
    made: list[Replacement] = []
    assert (redactor.redact_text(text, made), made) == (text, [])
    whole = json.dumps({"description": text})
    assert redactor.redact_document(whole, []) == whole


@pytest.mark.parametrize(
    ("name", "value"), [("PWD", "/srv/app1/x"), ("OLDPWD", "C:\\apps\\a1b2"), ("PWD", "~/a1b2c3"), ("pwd", "/srv/app1")]
)
def test_the_working_directory_is_no_password(redactor: Redactor, name: str, value: str) -> None:
    made: list[Replacement] = []
    assert (redactor.redact_text(f"{name}={value}", made), made) == (f"{name}={value}", [])
    assert "Secret1" not in redactor.redact_text("UID=sa;PWD=Secret1", [])


def test_the_environment_keeps_its_working_directory(redactor: Redactor) -> None:
    text = json.dumps({"env": {"PWD": "/srv/app1/x", "OLDPWD": "/opt/a1b2c3"}})
    assert redactor.redact_document(text, []) == text


def test_an_ampersand_ends_a_password_only_in_a_form(redactor: Redactor) -> None:
    for text in ("password: Tr0ub4dor&3", "password: Tr0ub4dor&three words", "password=swordfish&3"):
        assert "&" not in redactor.redact_text(text, []), text
    for text in ("user=a&password=Tr0ub4dor3&grant=code", "PASSWORD=Tr0ub4dor3 && run", "PASSWORD=Tr0ub4dor3& run"):
        new = redactor.redact_text(text, [])
        assert "Tr0ub4dor3" not in new
        assert new.endswith(text.partition("Tr0ub4dor3")[2])
