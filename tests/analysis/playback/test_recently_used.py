"""What is kept of what was used last."""

from analysis.playback.recently_used import RecentlyUsed


def test_the_least_recently_used_goes_first_and_the_last_one_stays() -> None:
    kept: RecentlyUsed[str] = RecentlyUsed(10)
    assert kept.get(1) is None
    assert [kept.add(number, text, 5) for number, text in ((1, "a"), (2, "b"))] == ["a", "b"]
    assert kept.get(1) == "a"
    kept.add(3, "c", 5)
    assert [kept.get(number) for number in (1, 2, 3)] == ["a", None, "c"]
    kept.add(3, "d", 4)
    assert [kept.get(number) for number in (1, 3)] == ["a", "d"], "a value takes the place of another"
    kept.add(4, "large", 1_000)
    assert [kept.get(number) for number in (1, 3, 4)] == [None, None, "large"]
    kept.add(5, "e", 10)
    assert [kept.get(number) for number in (4, 5)] == [None, "e"]
