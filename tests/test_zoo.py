"""The parts of the zoo that need no registry: its rows, the comparison of messages, and the list of judged findings."""

import pytest

from tests.zoo import rows
from tests.zoo.findings import Finding, gone, reviewed, unreviewed
from tests.zoo.mask import differences, fits
from tests.zoo.rows import filled
from tests.zoo.talk import part_names, payloads


def test_rows_pin_every_version_and_name_every_place_that_they_use() -> None:
    servers, clients = rows.read("server"), rows.read("client")
    assert len(servers) >= 25
    assert len(clients) >= 8
    places = dict.fromkeys(("bin", "node", "port", "programs", "python", "server", "url", "work"), "x")
    for animal in servers + clients:
        assert all(
            package.rpartition("=" if animal.registry == "pypi" else "@")[2][0].isdigit() for package in animal.packages
        )
        assert not any("{" in word for word in filled(animal.command, places))
        programs = [word.rpartition("/")[2] for word in animal.command if word.startswith("{programs}")]
        assert all((rows.HERE / "programs" / program).is_file() for program in programs)


def test_a_row_with_a_name_of_another_or_an_unknown_member_is_refused() -> None:
    row = '[[server]]\nname = "a"\nregistry = "npm"\npackages = ["a@1"]\ncommand = ["a"]\n'
    assert [animal.name for animal in rows.read("server", row)] == ["a"]
    with pytest.raises(ValueError, match="two rows have the name a"):
        rows.read("server", row + row)
    with pytest.raises(ValueError, match="no member is called comand"):
        rows.read("server", row + 'comand = ["a"]\n')


def test_words_in_which_direct_runs_differ_may_be_anything() -> None:
    one, other = b'{"id":1,"at":"2026-11-23T07:00:00Z","n":[5]}', b'{"id":1,"at":"2026-11-23T07:00:01.5Z","n":[17]}'
    assert fits([one, other], b'{"id":1,"at":"2027-01-01T00:00:00Z","n":[123]}')
    assert not fits([one, other], b'{"id":2,"at":"2027-01-01T00:00:00Z","n":[123]}')
    assert not fits([one, other], b'{"id":1,"at":"2027-01-01T00:00:00Z","n":[123]} ')
    assert not fits([one, one], other)
    # A timestamp that was equal in two runs may differ in the third.
    assert fits([one, one, other], b'{"id":1,"at":"2027-01-01T00:00:00Z","n":[123]}')


def test_a_time_that_is_logged_only_where_it_changes_is_no_difference() -> None:
    one, other = (
        b"[11/23/26 11:02:05] INFO a\n                    INFO b\n",
        b"[11/23/26 11:02:09] INFO a\n" + b" " * 20,
    )
    turned = b"[11/23/26 11:02:05] INFO a\n[11/23/26 11:02:06] INFO b\n"
    assert fits([one, one], turned)
    assert not fits([one, one], turned.replace(b"INFO b", b"INFO c"))
    assert not fits([one, one], other)


def test_runs_of_another_number_of_words_are_compared_in_what_they_share() -> None:
    direct = [b"start\nwarning: slow\nend\n", b"start\nend\n"]
    assert fits(direct, b"start\nwarning: very slow\nend\n")
    assert not fits(direct, b"start\nEND\n")


def test_a_part_that_is_missing_or_added_is_a_difference_unless_direct_runs_disagree() -> None:
    one, other = {"a": b"1", "b": b"2"}, {"a": b"1"}
    assert differences([one, one], {"a": b"1", "b": b"2"}) == {}
    assert differences([one, one], {"a": b"1"}) == {"b": "missing"}
    assert differences([other, other], one) == {"b": "added b'2'"}
    assert differences([one, other], {"a": b"1"}) == differences([one, other], one) == {}
    told = differences([other, other], {"a": b"0"})
    assert told == {"a": "at byte 0, directly b'1', wrapped b'0'"}


def test_messages_are_named_by_what_they_are() -> None:
    lines = [b'{"id":2,"result":{}}', b'{"method":"x"}', b"noise", b'{"method":"x"}']
    assert list(part_names(lines)) == ["answer 2 (1)", "x (1)", "not a message (1)", "x (2)"]


def test_how_a_body_was_cut_into_chunks_is_no_part_of_it() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked"
    event = b"event: message\ndata: {}\n\n"
    assert payloads(head, b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event)) == [b"{}"]
    cut = b"".join(b"1\r\n%c\r\n" % byte for byte in event)
    assert payloads(head, cut + b"0\r\n\r\n") == [b"{}"]
    assert payloads(b"HTTP/1.1 200 OK\r\nContent-Length: 2", b"ok") == [b"ok"]


def test_findings_are_those_that_were_judged() -> None:
    known = reviewed('[[finding]]\nrule = "id/x"\nanimals = ["a", "b"]\nright = false\nwhy = "no"\n')
    found = [Finding("id/x", "error", "server", None, "said"), Finding("id/y", "note", "client", None, "said")]
    assert unreviewed("a", found, known) == ["id/y"]
    assert gone("a", found, known) == []
    assert gone("b", [], known) == []
    assert gone("b", [], known, right=False) == ["id/x"]
    every = reviewed('[[finding]]\nrule = "id/y"\nanimals = ["*"]\nright = true\nwhy = "yes"\n')
    assert unreviewed("a", found, every) == ["id/x"]
    assert gone("a", [], every) == []
    judged = reviewed('[[finding]]\nrule = "id/y"\nanimals = ["a"]\nright = true\nwhy = "yes"\n')
    assert gone("a", [], judged) == ["id/y"]


def test_the_list_judges_animals_that_there_are() -> None:
    names = {animal.name for animal in rows.read("server") + rows.read("client")} | {"*"}
    assert {animal for animal, _ in reviewed()} <= names
