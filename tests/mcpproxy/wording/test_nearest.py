"""Which name a misspelt name probably means."""

from mcpproxy.wording.nearest import hint, nearest


def test_the_nearest_name_is_offered_if_one_is_near() -> None:
    known = ["perfetto", "har", "markdown"]
    assert [nearest(name, known) for name in ("perfeto", "HAR", "zzzz", "")] == ["perfetto", "har", None, None]
    assert nearest("market", known, 0.8) is None
    assert hint("perfeto", known) == " (did you mean perfetto?)"
    assert hint("zzzz", known) == ""


def test_hostile_names_are_escaped_and_take_no_time() -> None:
    assert hint("files", ["file\x1b"]) == " (did you mean file\\x1b?)"
    assert nearest("x" * 10_000_000, ["x" * 64]) == "x" * 64
