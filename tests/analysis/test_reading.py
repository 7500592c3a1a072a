"""Reading: what it knows about a whole capture."""

from pathlib import Path

import pytest

import analysis
from analysis.reading import read

CAPTURES = Path(__file__).parents[1] / "corpus" / "captures"


def test_what_is_known_of_a_capture_grows_while_it_is_read() -> None:
    reading = read(CAPTURES / "demo.mcpcap")
    before = reading.capture
    assert (before.transport, before.client, before.sessions, before.ending) == (None, None, 0, None)
    steps = [*reading.to_end()]
    about, (session,) = reading.capture, reading.sessions
    assert about.transport == "stdio"
    assert about.ending is not None
    assert (about.client, about.server, about.revisions) == (session.client, session.server, (session.revision,))
    assert about.client is not None
    assert about.sessions == session.number == 1
    last = steps[-2].item
    assert last is not None
    assert about.t_ns == getattr(last, "t_ns", None)
    assert reading.losses == (0, 0, 0)
    assert reading.forgotten == []


def test_what_is_lost_is_counted() -> None:
    reading = read(CAPTURES / "gaps.mcpcap")
    assert [*reading.to_end()]
    assert reading.losses.records > 0


def test_an_http_exchange_is_found_by_its_number() -> None:
    reading = read(CAPTURES / "http.mcpcap")
    assert reading.exchange(1) is None
    assert [*reading.to_end()]
    http = reading.exchange(1)
    assert http is not None
    assert http.number == 1


def test_the_old_name_of_a_message_in_context_works_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match=r"MessageContext"):
        assert analysis.Seen is analysis.MessageContext
