"""A script that grows in a thread: it is used meanwhile, is complete in the end, and is kept."""

import threading
from pathlib import Path

import pytest

from analysis.playback import script as scripts
from analysis.playback.matching import Matching
from analysis.playback.script import Script
from tests.analysis.playback.recordings import Recording, closed_scripts
from tests.harness import DEADLINE_S

__all__ = ["closed_scripts"]

CALLS = 1_500


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Recording().handshake()
    for n in range(1, CALLS + 1):
        made.call(n, arguments={"n": n})
        made.server(id=n, result={"n": n})
    return made.write(tmp_path_factory.mktemp("captures"))


def test_it_is_used_while_it_grows_and_kept_in_the_end(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(scripts, "MIN_CAPTURE_BYTES", 0)
    for is_from_cache in (False, True):
        script, complete = Script(capture, Matching()), threading.Event()
        sizes: list[int] = []

        def note(script: Script = script, sizes: list[int] = sizes, complete: threading.Event = complete) -> None:
            sizes.append(len(script.items))
            for number in script.items_of(1)[-3:]:
                assert script.raw(script.items[number])
            if script.is_complete:
                complete.set()

        script.grow_in_thread(note)
        assert complete.wait(DEADLINE_S)
        script.join()
        assert script.is_from_cache is is_from_cache
        assert len(sizes) > 10 or is_from_cache
        assert sizes == sorted(sizes)
        assert sizes[-1] == 3 + 2 * CALLS
        script.close()


def test_closing_stops_the_growth(capture: Path) -> None:
    script, has_grown = Script(capture, Matching()), threading.Event()
    script.grow_in_thread(has_grown.set)
    assert has_grown.wait(DEADLINE_S)
    script.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "script"]


def test_a_fault_ends_the_growth_and_says_so(capture: Path) -> None:
    class FaultyMatching(Matching):
        def key_of(self, method: str, name: str, params: object) -> str:
            raise KeyError(method, name, params)

    script, complete = Script(capture, FaultyMatching()), threading.Event()
    script.grow_in_thread(complete.set)
    assert complete.wait(DEADLINE_S)
    assert script.ending is not None
    assert script.ending.caveats == ("a fault of mcpproxy ended the reading early",)
    assert not script.save()
    script.close()
