"""Which servers of both sides are compared with each other."""

from analysis.comparison.servers import ServerPair, merge_unnamed, pair_servers


def test_servers_are_paired_by_name_and_the_only_two_that_are_left() -> None:
    assert pair_servers(["a", "b"], ["b", "c"]).pairs == [ServerPair("b", "b"), ServerPair("a", "c")]
    servers = pair_servers(["a", "b", "c"], ["c", "d"])
    assert (servers.pairs, servers.only_old, servers.only_new) == ([ServerPair("c", "c")], ["a", "b"], ["d"])
    assert pair_servers([], ["a"]).only_new == ["a"]


def test_subjects_name_the_server_only_if_there_are_several() -> None:
    one, several = pair_servers(["a"], ["b"]), pair_servers(["", "b"], ["", "b"])
    assert [one.suffix(pair) for pair in one.pairs] == [""]
    assert [several.suffix(pair) for pair in several.pairs] == [" of a server without a name", " of b"]


def test_captures_without_a_name_belong_to_the_only_server_that_has_one() -> None:
    for servers, expected in (
        ({"": [1], "a": [2]}, {"a": [2, 1]}),
        ({"": [1]}, {"": [1]}),
        ({"": [1], "a": [2], "b": [3]}, {"": [1], "a": [2], "b": [3]}),
    ):
        merge_unnamed(servers, lambda named, unnamed: named + unnamed)
        assert servers == expected
