"""Journal entries are whole or absent, in order, and readable by another process after the writer's death."""

import os
import random

from captures.journal import FREE_STEP_BYTES, Journal


def in_a_child(task: object) -> None:
    """Run something in a forked process that exits right afterwards, as if killed."""
    pid = os.fork()
    if pid == 0:
        try:
            task()  # type: ignore[operator]
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def test_what_a_process_has_put_outlives_it() -> None:
    journal = Journal(1 << 20)

    def record() -> None:
        journal.next_seq = 8
        assert journal.store(b"one\n", 6)
        assert journal.store(b"two\n", 7)

    assert journal.content() == b""
    in_a_child(record)
    assert journal.content() == b"one\ntwo\n"
    assert journal.next_seq == 8


def test_what_does_not_fit_is_refused_whole() -> None:
    journal = Journal(100)
    assert journal.store(b"x" * 60, 1)
    assert not journal.store(b"y" * 41, 2)
    assert journal.content() == b"x" * 60
    assert journal.store(b"z" * 40, 3)
    assert journal.free_bytes == 0
    journal.clear()
    assert (journal.free_bytes, journal.content(), journal.next_seq) == (100, b"", 0)


def test_it_goes_round_and_frees_what_was_written() -> None:
    journal, chance = Journal(4 * FREE_STEP_BYTES), random.Random(1)
    kept: list[tuple[int, bytes]] = []
    written = 0
    for seq in range(4000):
        data = chance.randbytes(chance.randrange(1, 3000))
        if not journal.store(data, seq):
            written = seq - chance.randrange(1, 5)
            journal.free(written)
            assert journal.store(data, seq)
        kept.append((seq, data))
        if seq % 50 == 0:
            content = journal.content()
            assert b"".join(data for _, data in kept).endswith(content)
            assert content.endswith(b"".join(data for number, data in kept if number > written))
