"""Which invisible characters are hidden text, and which belong to an emoji or to a script."""

from analysis.comparison.definitions.hidden_text import HiddenText, hidden_characters, names_of, new_hidden_text

HARMLESS = {
    "plain text": "Adds numbers.\n\tReturns the sum.\r\n",
    "accents": "Größe, naïve, smørrebrød, e\u0301",
    "a family": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "a family with skin tones": "\U0001f469\U0001f3fd\u200d\u2764\ufe0f\u200d\U0001f48b\u200d\U0001f468\U0001f3fb",
    "a heart on fire": "\u2764\ufe0f\u200d\U0001f525",
    "a woman shrugging": "\U0001f937\U0001f3fe\u200d\u2640\ufe0f",
    "a pirate flag": "\U0001f3f4\u200d\u2620\ufe0f",
    "a rainbow flag": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "the flag of Scotland": "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "the flag of Texas": "\U0001f3f4\U000e0075\U000e0073\U000e0074\U000e0078\U000e007f",
    "a flag of two letters": "\U0001f1e9\U0001f1ea",
    "keys": "press 1\ufe0f\u20e3 or #\ufe0f\u20e3",
    "signs as emoji": "\u26a0\ufe0f \u2714\ufe0f \u00a9\ufe0f \u2139\ufe0f \u203c\ufe0f",
    "signs as text": "\u26a0\ufe0e \u2660\ufe0e",
    "Persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u06a9\u062a\u0627\u0628\u200c\u0647\u0627",
    "an Arabic abbreviation": "\u0647\u200d.",
    "Hindi with a joiner": "\u0915\u094d\u200d\u0937",
    "Hindi with a non-joiner": "\u0915\u094d\u200c\u0937",
    "Malayalam": "\u0d05\u0d35\u0d28\u0d4d\u200d",
    "Sinhala": "\u0dc1\u0dca\u200d\u0dbb\u0dd3",
    "Bengali": "\u09b0\u200d\u09cd\u09af",
    "Hebrew": "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "Hebrew with a mark": "\u05e9\u05dc\u05d5\u05dd C++\u200e 17",
    "Arabic": "\u0627\u0628\u062d\u062b \u0639\u0646 \u0627\u0644\u0645\u0644\u0641\u0627\u062a",
    "Thai with breaks": "\u0e2a\u0e27\u0e31\u0e2a\u200b\u0e14\u0e35",
    "German with a soft hyphen": "Donau\u00addampf\u00adschiff",
    "an ideograph and its form": "\u845b\U000e0100\u57ce",
    "a slashed zero": "0\ufe00",
    "Mongolian": "\u1820\u180b\u1828",
    "old Korean": "\u1112\u1160\u11ab",
    "mathematics": "\u2229\ufe00",
}
HARMFUL = {
    "an override": ("abc\u202edef", "\u202e"),
    "an isolate": ("a\u2066b\u2069", "\u2066\u2069"),
    "an override in Hebrew": ("\u05e9\u202e\u05dc", "\u202e"),
    "a mark in English": ("safe\u200f text", "\u200f"),
    "zero-width spaces": ("ad\u200bmin", "\u200b"),
    "a word joiner": ("ad\u2060min", "\u2060"),
    "a byte order mark": ("ad\ufeffmin", "\ufeff"),
    "a joiner between Latin letters": ("ad\u200dmin", "\u200d"),
    "a non-joiner between Latin letters": ("ad\u200cmin", "\u200c"),
    "a joiner after an emoji": ("\U0001f525\u200d done", "\u200d"),
    "joiners as bits in Persian": ("\u0645\u200c\u200d\u200c\u062e", "\u200c\u200d\u200c"),
    "tags": ("hi\U000e0069\U000e0067", "\U000e0069\U000e0067"),
    "tags after a flag without an end": ("\U0001f3f4\U000e0067\U000e0062", "\U000e0067\U000e0062"),
    "a long text as a flag": (
        "\U0001f3f4" + "\U000e0061" * 12 + "\U000e007f",
        "\U000e0061" * 12 + "\U000e007f",
    ),
    "selectors in a run": ("\U0001f600\ufe0f\U000e0100\U000e0101", "\ufe0f\U000e0100\U000e0101"),
    "a selector on a letter": ("a\ufe01b", "\ufe01"),
    "selectors on letters": ("a\U000e0130b\U000e0131", "\U000e0130\U000e0131"),
    "a terminal escape": ("\x1b[8mhidden\x1b[0m", "\x1b\x1b"),
    "a backspace": ("good\x08\x08bad", "\x08\x08"),
    "a control of C1": ("a\x9b8m", "\x9b"),
    "invisible operators": ("a\u2063b", "\u2063"),
    "a Hangul filler": ("a\u3164b", "\u3164"),
    "soft hyphens in a run": ("a\u00ad\u00adb", "\u00ad\u00ad"),
}


def test_characters_that_belong_to_an_emoji_or_a_script_are_harmless() -> None:
    for what, text in HARMLESS.items():
        assert hidden_characters(text) == "", what


def test_characters_that_serve_nothing_are_hidden() -> None:
    for what, (text, characters) in HARMFUL.items():
        assert hidden_characters(text) == characters, what


def test_hidden_text_is_found_in_names_and_in_nested_values() -> None:
    new = {"inputSchema": {"properties": {"a/b": {"enum": ["x", "y\u200b"]}, "c\u202e": {}}}}
    assert new_hidden_text({}, new) == [
        HiddenText("/inputSchema/properties/a~1b/enum/1", "\u200b"),
        HiddenText("/inputSchema/properties", "\u202e"),
    ]


def test_only_new_hidden_text_counts() -> None:
    old = {"a": "x\u200b", "b": "y"}
    assert new_hidden_text(old, old) == []
    assert new_hidden_text(old, {"b": "y", "c": "x\u200b"}) == []
    assert new_hidden_text(old, {"a": "another text\u200b"}) == []
    assert new_hidden_text(old, {"a": "x\u200b\u200b\u2060"}) == [HiddenText("/a", "\u200b\u2060")]
    assert new_hidden_text(old, {"a": "x\u200b", "b": "x\u200b"}) == [HiddenText("/b", "\u200b")]


def test_a_deep_or_long_value_is_searched() -> None:
    deep: object = "\u200b"
    for _ in range(10_000):
        deep = [deep]
    assert [text.characters for text in new_hidden_text(None, deep)] == ["\u200b"]
    assert len(new_hidden_text({}, {"a": "a\u200b\ud800" * 100_000})[0].characters) == 100_000


def test_hidden_characters_are_named_and_what_they_encode_is_spelt() -> None:
    assert names_of("\u200b\u200b\u202e") == "U+200B ZERO WIDTH SPACE, U+202E RIGHT-TO-LEFT OVERRIDE"
    assert names_of("\x1b") == "U+001B"
    tags = "".join(chr(0xE0000 + ord(character)) for character in "obey")
    assert names_of(f"{tags}\u200b") == (
        "4 tag characters (U+E0062 to U+E0079), which spell 'obey', U+200B ZERO WIDTH SPACE"
    )
    selectors = "".join(chr(0xE0100 + ord(character) - 16) for character in "obey")
    assert names_of(selectors) == "4 variation selectors (U+E0152 to U+E0169), which spell 'obey'"
    assert names_of("\ufe00\U000e01ef") == "U+FE00 VARIATION SELECTOR-1, U+E01EF VARIATION SELECTOR-256"
    assert len(names_of(tags * 100_000)) < 200
    assert "3 more" in names_of("\u200b\u2060\u2061\u2062\u2063\u2064\u202a\u202b")
