"""The normaliser: what varies by itself becomes its kind, and nothing else does."""

import json
import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison.canonical import canonical_json
from analysis.comparison.values.normaliser import MAX_DEPTH, json_type, normalise
from analysis.comparison.values.value_differences import differences
from mcpproxy.sharing.pseudonyms import PseudonymGenerator
from tests.examples import examples

ID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
PASSED_OVER = (
    # rule, member, value, normalised value
    ("id", "x", ID, "⟨id⟩"),
    ("id", "x", f"req_{ID}", "req_⟨id⟩"),
    ("id", "x", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "⟨id⟩"),
    ("id", "x", "commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "commit ⟨id⟩"),
    ("id", "x", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "sk_live_⟨id⟩"),
    ("id", "x", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0", "⟨id⟩"),
    ("id", "requestId", 17, "⟨id: number⟩"),
    ("id", "session_id", "s1", "⟨id⟩"),
    ("id", "requestState", "c3RhdGU6MQ", "⟨id⟩"),
    ("time", "x", "at 2026-11-30T09:21:10.123456+01:00.", "at ⟨time⟩."),
    ("time", "x", "2026-11-30 09:21:10,123 INFO ready", "⟨time⟩ INFO ready"),
    ("time", "x", "Mon, 30 Nov 2026 09:21:10 GMT", "⟨time⟩"),
    ("time", "x", "Mon Nov 30 09:21:10 2026", "⟨time⟩"),
    ("time", "x", "Mon Nov 30 2026 09:21:10 GMT+0000 (Coordinated Universal Time)", "⟨time⟩"),
    ("time", "x", "30/Nov/2026:09:21:10 +0000", "⟨time⟩"),
    ("time", "x", "11/30/2026, 9:21:10 AM", "⟨time⟩"),
    ("time", "createdAt", 1764494470, "⟨time: number⟩"),
    ("time", "created_at", 1764494470123, "⟨time: number⟩"),
    ("time", "mtime", 1764494470.25, "⟨time: number⟩"),
    ("time", "updated", "2026-11-30", "⟨time⟩"),
    ("time", "timestamp", "1764494470", "⟨time⟩"),
    ("cursor", "nextCursor", "abc", "⟨cursor⟩"),
    ("cursor", "next_page_token", "abc", "⟨cursor⟩"),
    ("duration", "x", "3 rows, took 12 ms", "3 rows, took ⟨duration⟩"),
    ("duration", "x", "finished in 1.5 seconds", "finished in ⟨duration⟩"),
    ("duration", "x", "3 rows (0.01 sec)", "3 rows (⟨duration⟩)"),
    ("duration", "elapsed_ms", 12, "⟨duration: number⟩"),
    ("duration", "executionTime", "12ms", "⟨duration⟩"),
    ("path", "x", "read /home/alice/work/notes.txt.", "read ⟨path⟩/notes.txt."),
    ("path", "x", "/tmp/tmpa1b2c3", "⟨path⟩"),
    ("path", "x", "/Users/alice/work", "⟨path⟩"),
    ("path", "x", "C:\\Users\\alice\\work\\notes.txt", "⟨path⟩\\notes.txt"),
    ("path", "x", "file:///var/folders/a1/T/x", "⟨path⟩"),
    ("loopback port", "x", "http://localhost:53121/mcp", "http://localhost:⟨loopback port⟩/mcp"),
    ("loopback port", "x", "http://[::1]:8080", "http://[::1]:⟨loopback port⟩"),
    ("redaction tag", "x", "Bearer hmac:0123456789abcdef", "Bearer ⟨redaction tag⟩"),
)
KEPT = (
    ("x", "The weather in Paris: 21 degrees, 3 km/h, 45 %."),
    ("x", "retry in 30 seconds"),
    ("x", "Walk (10 minutes)"),
    ("x", "version 1.20.3, build 4711"),
    ("x", "get_current_weather_forecast_v2"),
    ("x", "MyVeryLongClassName2Implementation"),
    ("x", "https://example.org:8443/home/page"),
    ("x", "born 1990-01-01"),
    ("x", "3:16 or 10:30"),
    ("id", 17),
    ("user_id", "alice"),
    ("sessionId", ""),
    ("sessionId", None),
    ("requestId", True),
    ("count", 1764494470),
    ("createdAt", 5),
    ("created", "yes"),
    ("timeout_ms", 500),
    ("data", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNg"),
    ("size", 9007199254740993),
)


def test_each_rule_passes_over_its_values_and_keeps_the_rest_of_a_text() -> None:
    for rule, member, value, expected in PASSED_OVER:
        normalised = normalise({member: value})
        assert normalised.value == {member: expected}, value
        assert [each.rule for each in normalised.passed] == [rule], value


def test_what_does_not_vary_stays() -> None:
    for member, value in KEPT:
        normalised = normalise({member: value})
        assert normalised.value == {member: value}, value
        assert not normalised.passed, value


def test_meta_keeps_its_names_types_and_lengths() -> None:
    normalised = normalise({"_meta": {"a": 1, "b": ["x", None, {"c": True}]}})
    expected = {"a": "⟨_meta: number⟩", "b": ["⟨_meta⟩", None, {"c": "⟨_meta: boolean⟩"}]}
    assert normalised.value == {"_meta": expected}
    assert len(normalised.passed) == 3


def test_json_in_a_text_is_normalised_as_json() -> None:
    assert normalise({"text": '{"at": "2026-11-30T09:21:10Z", "n": 1}'}).value == {
        "text": {"@json": {"at": "⟨time⟩", "n": 1}}
    }
    assert normalise({"text": "{no JSON, took 12 ms"}).value == {"text": "{no JSON, took ⟨duration⟩"}


def test_ids_as_names_of_members_are_numbered_regardless_of_their_order() -> None:
    first = normalise({ID: {"n": 2}, ID.replace("3f", "00"): {"n": 1}, "x": 0}).value
    second = normalise({ID: {"n": 1}, ID.replace("3f", "ff"): {"n": 2}, "x": 0}).value
    assert first == second == {"x": 0, "⟨id⟩": {"n": 1}, "⟨id⟩ 2": {"n": 2}}


def test_pseudonyms_of_redacted_copies_are_passed_over() -> None:
    old, new = PseudonymGenerator(b"a" * 32), PseudonymGenerator(b"b" * 32)
    forms: dict[str, Callable[[PseudonymGenerator], str]] = {
        "tag": lambda key: key.tag("secret"),
        "user": lambda key: key.user("alice"),
        "host": lambda key: key.host("example.org"),
        "email": lambda key: key.email("alice@example.org"),
        "ipv4": lambda key: key.ipv4("192.0.2.1"),
        "ipv6": lambda key: key.ipv6("fe80::1"),
        "mac": lambda key: key.mac("00:11:22:33:44:55"),
        "base64": lambda key: key.base64("secret"),
        "iban": lambda key: key.iban("DE89370400440532013000"),
    }
    for name, form in forms.items():
        texts = [f"owner {form(key)} said so" for key in (old, new)]
        assert texts[0] != texts[1], name
        assert normalise(texts[0]).value == normalise(texts[1]).value, name
    images = [normalise({"data": key.base64("image")}).value for key in (old, new)]
    assert images == [{"data": "⟨redaction tag⟩"}] * 2


def test_hostile_values_cost_bounded_time_and_never_raise() -> None:
    deep: Any = []
    for _ in range(900):
        deep = {"a": [deep]}
    values = (
        deep,
        {"_meta": deep},
        {"\ud800": "\udfff took 12 ms"},
        {"n": 10**30, "createdAt": 10**400, "nextCursor": 10**30},
        {"text": "[" * 100_000},
        {"x": "2026-11-30T" * 20_000},
        {"x": "a1B" * 100_000},
        {"x": "/home/" * 50_000},
        {"x": "eyJ" + "a" * 100_000},
        {"x": "9" * 200_000},
        {"x": "took " * 50_000},
        {"x": "⟨id⟩⟨time: number⟩"},
        {str(number): "x" for number in range(20_000)},
        {f"{number:08x}-0000-0000-0000-000000000000": number for number in range(2_000)},
    )
    for value in values:
        normalised = normalise(value)
        assert canonical_json(normalise(normalised.value).value) == canonical_json(normalised.value)


def test_deep_values_are_compared_by_their_digests() -> None:
    def nested(leaf: int) -> Any:
        value: Any = leaf
        for _ in range(MAX_DEPTH + 10):
            value = [value]
        return value

    assert normalise(nested(1)).value == normalise(nested(1)).value
    assert normalise(nested(1)).value != normalise(nested(2)).value


# ---- properties

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=12), st.sampled_from(
        [value for _, _, value, _ in PASSED_OVER]
    )
)  # fmt: skip
NAMES = st.one_of(
    st.sampled_from(["text", "_meta", "id", "requestId", "createdAt", "nextCursor", ID]), st.text(max_size=5)
)
VALUES = st.recursive(SCALARS, lambda child: st.lists(child, max_size=4) | st.dictionaries(NAMES, child, max_size=4))


@given(VALUES)
@examples(100)
def test_normalising_is_idempotent(value: Any) -> None:
    once = normalise(value)
    twice = normalise(once.value)
    assert canonical_json(twice.value) == canonical_json(once.value)
    assert not twice.passed


def rendered(value: Any, seed: int) -> Any:
    """The value as another recording would show it: with other ids and times in place of the strings `ID` and so on."""
    chance = random.Random(seed)

    def moment() -> str:
        year, month, day, hour = (chance.randrange(*limits) for limits in ((10, 99), (1, 13), (1, 29), (0, 24)))
        return f"20{year}-{month:02}-{day:02}T{hour:02}:30:00Z"

    def fresh(text: str) -> str:
        new_id = str(UUID(int=chance.getrandbits(128)))
        return (
            text.replace("ID", new_id)
            .replace("TIME", moment())
            .replace("HEX", f"{chance.getrandbits(120) | 10:032x}ab1")
        )

    def walk(part: Any) -> Any:
        if isinstance(part, str):
            return fresh(part)
        if isinstance(part, list):
            return [walk(element) for element in part]
        if isinstance(part, dict):
            members = [(name, walk(child)) for name, child in part.items()]
            chance.shuffle(members)
            return dict(members)
        return part

    return walk(value)


TEXTS = st.lists(st.sampled_from(["ID", "TIME", "HEX", "word", "3", "{", ":"]), max_size=6).map(" ".join)
RESULTS = st.recursive(
    st.one_of(TEXTS, st.none(), st.booleans(), st.integers(-5, 5)),
    lambda child: st.lists(child, max_size=4) | st.dictionaries(st.sampled_from("abcdef"), child, max_size=4),
)


@given(RESULTS, st.integers(0, 1 << 30))
@examples(100)
def test_two_recordings_of_one_value_are_equal(value: Any, seed: int) -> None:
    texts = [
        canonical_json(normalise({"structuredContent": each, "content": [{"text": json.dumps(each)}]}).value)
        for each in (rendered(value, seed), rendered(value, seed + 1))
    ]
    assert texts[0] == texts[1]


OTHER_TYPES: tuple[Any, ...] = (None, True, 7, "x", {}, [])


@given(VALUES, NAMES)
@examples(100)
def test_every_change_of_a_type_is_found(value: Any, name: str) -> None:
    old = normalise({name: value}).value
    for other in OTHER_TYPES:
        new = normalise({name: other}).value
        types = json_type(value), json_type(other)
        kinds = {difference.kind.id for difference in differences(old, new)}
        assert ("value/type-changed" in kinds) == (types[0] != types[1]) or types[0] in ("object", "array"), (old, new)
