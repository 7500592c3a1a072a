"""The queue of what arrives from the server, and its limit."""

from mcpproxy.replay.arrivals import Arrival, Arrivals, cost, limit_for


def test_what_exceeds_the_limit_comes_as_an_end_in_place_of_all_that_wait() -> None:
    arrivals = Arrivals(limit=cost(b"12345") * 2)
    assert arrivals.put(Arrival(b"12345"))
    was_excessive = arrivals.put(Arrival(b"67890")) and arrivals.is_excessive
    assert not arrivals.put(Arrival(b""))
    assert (was_excessive, arrivals.is_excessive) == (False, True)
    end = arrivals.get(0.0)
    assert end is not None
    assert (end.is_end, end.is_excess, end.raw) == (True, True, b"")
    assert arrivals.get(0.0) is None
    assert not arrivals.put(Arrival(b"more"))
    assert arrivals.get(0.0) is None


def test_what_comes_after_the_close_counts_too() -> None:
    arrivals = Arrivals(limit=cost(b"12345"))
    arrivals.close()
    for is_excessive in (False, True):
        assert not arrivals.put(Arrival(b"12345"))
        assert arrivals.is_excessive == is_excessive
    assert arrivals.get(0.0) is None


def test_what_is_dropped_counts() -> None:
    arrivals = Arrivals(limit=cost(b"12345"))
    arrivals.drop(b"12345")
    assert arrivals.get(0.0) is None
    arrivals.drop(b"")
    end = arrivals.get(0.0)
    assert end is not None
    assert end.is_excess


def test_without_a_limit_any_amount_may_come() -> None:
    arrivals = Arrivals()
    for _ in range(3):
        assert arrivals.put(Arrival(b"x" * (20 << 20)))
    assert not arrivals.is_excessive


def test_a_limit_is_some_times_what_was_recorded() -> None:
    assert limit_for(1000) == 64 << 20
    assert limit_for(100 << 20) == 400 << 20
