"""The order of a cassette: calls one after the other where nothing depends on it, and everything else as it was."""

from random import Random

from mcpproxy.sharing.steady_order import RecordFacts, steady_order


def order(text: str) -> str:
    """Returns the order of a conversation on stdio, in the notation of `entries`."""
    words = text.split()
    return " ".join(words[index] for index in steady_order([_entry(word) for word in words]))


def _entry(word: str) -> RecordFacts:
    """Returns a record: `c1` and `s1` are request and answer of call 1, `l1` and `m1` those of a list, `>` and `<` are
    other messages of client and server, and anything else is no message."""
    side, number = word[0], word[1:]
    if side not in "csml><":
        return RecordFacts(word, 0, 0, 0)
    call = int(number) if side in "csml" else -1
    sender = "client" if side in "cl>" else "server"
    return RecordFacts("frame", 0, 0, 0, sender=sender, call=call, is_list=side in "lm", has_request=side in "cl")  # type: ignore[arg-type]


def test_calls_that_overlap_stand_one_after_the_other() -> None:
    for recorded in ("c1 c2 s1 s2", "c1 c2 s2 s1", "c1 s1 c2 s2"):
        assert order(recorded) == "c1 s1 c2 s2"
    assert order("c1 c2 c3 s3 s1 s2 s1") == "c1 s1 s1 c2 s2 c3 s3"


def test_nothing_passes_a_message_that_may_depend_on_it() -> None:
    for recorded in ("c1 > c2 s2 s1", "c1 < c2 s2 s1"):
        assert order(recorded) == recorded.replace("c2 s2 s1", "s1 c2 s2")
    assert order("c1 c2 > s2 s1") == "c1 c2 > s1 s2"
    assert order("c1 c2 gap s2 s1") == "c1 c2 gap s1 s2"


def test_lists_and_calls_do_not_pass_each_other() -> None:
    assert order("l1 l2 m2 m1") == "l1 m1 l2 m2"
    assert order("l1 c2 m1 s2") == "l1 c2 m1 s2"


def test_the_order_is_a_permutation_and_stays_when_it_is_ordered_again() -> None:
    random = Random(7)
    words = ["c1", "s1", "c2", "s2", "l3", "m3", "c4", "s4", ">", "<", "eof", "s1", "gap"]
    for _ in range(300):
        text = " ".join(random.sample(words, len(words)))
        ordered = order(text)
        assert sorted(ordered.split()) == sorted(words)
        assert order(ordered) == ordered, text


def test_output_ends_before_the_process() -> None:
    late = [
        RecordFacts("process", 0, 0, 0, stage="ended"),
        RecordFacts("eof", 0, 0, 0, stage="s2c"),
        RecordFacts("close", 0, 0, 0),
    ]
    assert list(steady_order(late)) == [1, 0, 2]


def http(exchange: int, text: str) -> list[RecordFacts]:
    """Returns the records of an exchange: `r` its request, `p` the head of the response, `o` its stream, `e` its end;
    `c`, `s`, `i` frames: a request, its answer, and the notification that ends a handshake."""
    made = {
        "r": RecordFacts("exchange", 0, 0, 0, exchange=exchange, stage="request"),
        "g": RecordFacts("exchange", 0, 0, 0, exchange=exchange, stage="request", is_get=True, wants_stream=True),
        "p": RecordFacts("exchange", 0, 0, 0, exchange=exchange, stage="response"),
        "o": RecordFacts("stream", 0, 0, 0, exchange=exchange, stage="opened"),
        "c": RecordFacts("frame", 0, 0, 0, "client", exchange, call=exchange, request_id=exchange, has_request=True),
        "i": RecordFacts("frame", 0, 0, 0, "client", exchange, is_initialized=True),
        "s": RecordFacts("frame", 0, 0, 0, "server", exchange, call=exchange),
        "e": RecordFacts("exchange", 0, 0, 0, exchange=exchange, stage="end", ended_by="complete", is_settled=True),
    }
    return [made[letter] for letter in text]


def http_order(*steps: tuple[int, str]) -> list[tuple[int, str]]:
    """Returns the records of exchanges in order, each with its letter."""
    entries, names = [], []
    for exchange, text in steps:
        entries += http(exchange, text)
        names += [(exchange, letter) for letter in text]
    ordered: list[tuple[int, str]] = []
    for index in steady_order(entries):
        exchange, letter = names[index]
        if ordered and ordered[-1][0] == exchange:
            ordered[-1] = exchange, ordered[-1][1] + letter
        else:
            ordered.append((exchange, letter))
    return ordered


def test_exchanges_that_overlap_stand_one_after_the_other() -> None:
    for steps in (
        [(1, "rc"), (2, "rc"), (1, "pose"), (2, "pose")],
        [(2, "rc"), (1, "rc"), (2, "po"), (1, "pos"), (2, "s"), (1, "e"), (2, "e")],
        [(1, "rc"), (2, "r"), (1, "pos"), (2, "c"), (1, "e"), (2, "pose")],
    ):
        assert http_order(*steps) == [(1, "rcpose"), (2, "rcpose")]


def test_a_stream_opens_right_after_the_handshake_and_ends_last() -> None:
    for steps in (
        [(1, "ri"), (1, "e"), (2, "g"), (3, "rc"), (2, "po"), (3, "se"), (2, "e")],
        [(1, "ri"), (1, "e"), (3, "rc"), (2, "gp"), (3, "s"), (2, "o"), (3, "e"), (2, "e")],
        [(1, "ri"), (2, "gpo"), (1, "e"), (3, "rcs"), (2, "e"), (3, "e")],
    ):
        assert http_order(*steps) == [(1, "rie"), (2, "gpo"), (3, "rcse"), (2, "e")]
