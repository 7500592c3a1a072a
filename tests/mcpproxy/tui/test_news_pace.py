"""The pace of news, on a clock that the test turns."""

import asyncio
import threading
from itertools import pairwise

from mcpproxy.tui.news_pace import MAX_NEWS_PER_SECOND, MAX_UNDELAYED_NEWS, NewsPace


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer in place of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0

    def time(self) -> float:
        return self.now_s

    def _run_once(self) -> None:
        timers = [timer for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        if timers and not self._ready:  # type: ignore[attr-defined]
            self.now_s = max(self.now_s, min(timer.when() for timer in timers))
        super()._run_once()  # type: ignore[misc]


def run(announcements: list[tuple[float, str]], *, urgent: str = "row") -> list[tuple[float, str]]:
    """When each kind of news is passed on, if it is announced at these times, in seconds."""
    passed: list[tuple[float, str]] = []
    loop = _Loop()
    start_s = loop.now_s

    async def reach(time_s: float) -> None:
        reached: asyncio.Future[None] = loop.create_future()
        loop.call_at(time_s, reached.set_result, None)
        await reached

    async def announce() -> None:
        pace = NewsPace()
        kinds = {
            kind: lambda kind=kind: passed.append((round(loop.now_s - start_s, 2), kind)) for _, kind in announcements
        }
        for at_s, kind in announcements:
            await reach(start_s + at_s)
            pace.announce(kinds[kind], is_urgent=kind == urgent)
        await reach(loop.now_s + 2)
        assert not pace.is_waiting

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(announce())
    return passed


def test_a_row_and_its_meaning_are_announced_at_once() -> None:
    assert run([(0, "row"), (0.04, "meaning")]) == [(0, "row"), (0.04, "meaning")]


def test_a_flood_is_announced_at_a_steady_pace() -> None:
    passed = run([(number / 100, "row") for number in range(300)])
    later = [at_s for at_s, _ in passed if at_s > 1]
    assert len(later) <= 2.2 * MAX_NEWS_PER_SECOND
    assert max(b - a for a, b in pairwise(later)) < 1.1 / MAX_NEWS_PER_SECOND


def test_other_news_leaves_room_for_a_row() -> None:
    passed = run([*((number / 100, "meaning") for number in range(200)), (2.0, "row")])
    assert (2.0, "row") in passed


def test_what_waits_is_passed_on_together() -> None:
    burst = [*[(0.0, "row")] * int(MAX_UNDELAYED_NEWS), (0.01, "row"), (0.02, "meaning")]
    assert run(burst)[-2:] == [(0.2, "row"), (0.2, "meaning")]


def test_threads_may_announce_until_the_loop_is_closed() -> None:
    passed = threading.Event()
    paces: list[NewsPace] = []

    async def announce() -> None:
        paces.append(NewsPace())
        thread = threading.Thread(target=paces[0].announce, args=(passed.set,))
        thread.start()
        thread.join()
        await asyncio.sleep(0)
        paces[0].close()

    asyncio.run(announce())
    paces[0].announce(passed.clear)
    assert passed.is_set()
