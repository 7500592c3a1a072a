"""SessionPlay: which items of a recorded session are due, given what the client has sent so far."""

import heapq
from itertools import islice
from typing import Final, NamedTuple

from analysis.conversation.message import Id, id_of_token
from analysis.playback.items import Item
from analysis.playback.script import Script
from analysis.protocol.extensions import ENDLESS_METHODS
from mcpproxy.mock.client_items import ClientItems

PATIENCE_NS: Final = 100_000_000
"""How long an answer waits for a message that the client had sent before it in the recording (concurrent calls)."""
MIN_SPACING_NS: Final = 1_000_000
"""A notification and a response with this time between them were certainly not read together in the recording."""
SPACING_NS: Final = 2_000_000
"""The time between them in the mock, if everything else is sent at once."""
PROGRESS: Final = "notifications/progress"


class Play:
    """A request of the client, and how far the recorded answer to it has been sent."""

    def __init__(self, request: int, session: int, call: int, item: Item, now_ns: int) -> None:
        """Begin an answer.

        Args:
            request: the number of the client's request.
            session: the recorded session that it plays.
            call: the recorded call.
            item: the recorded item that holds the request.
            now_ns: when that request came.
        """
        self.request, self.session, self.call, self.item = request, session, call, item
        self.position = 0
        self.base_ns, self.base_item_ns = now_ns, item.t_ns
        self.id: Id | None = None
        self.id_token = self.progress_token = self.recorded_id = self.recorded_progress = b""
        self.is_endless = item.method in ENDLESS_METHODS
        self.is_answered = False
        """Whether its response was sent; items that the server had sent even later can follow."""
        self.is_from_batch = self.is_impatient = self.is_over = False
        self.noticed_ns = self.noticed_item_ns = 0
        """When a notification was sent for it last, and its stamp in the recording."""
        self.end_of_patience_ns: int | None = None
        self.asked: set[int] = set()
        """The calls of the server that were sent for it."""
        self.answered: set[int] = set()
        """Those that the client has answered."""
        self.waits_for: str = ""
        """What the next item waits for: `time`, `client`, `cancellation`, `frontier`, `answer` or `growth`."""


class Delivery(NamedTuple):
    """An item that is due."""

    item: Item | None
    """None if a call is over without an answer."""
    play: Play | None
    """The request to which it belongs; None for an unowned item."""
    next_item: Item | None = None
    """What the server sent next for that request, as far as it was read."""


class SessionPlay:
    """One recorded session while it is played."""

    def __init__(self, script: Script, session: int, speed: float | None) -> None:
        """Begin a session; `speed` as in `MockOptions`."""
        self.session = session
        self.clients = ClientItems(script, session)
        self._script, self._speed = script, speed
        self._count = 0
        self._ready: list[tuple[int, int, Play]] = []
        """Plays with the item that is due, as a heap."""
        self._timers: list[tuple[int, int, Play]] = []
        self._spaced: list[tuple[int, int, Play]] = []
        """Responses that keep a distance to the notifications before them, by their numbers, as a heap."""
        self._client_waits: dict[int, list[Play]] = {}
        self._frontier_waits: list[tuple[int, int, Play]] = []
        self._growth_waits: list[Play] = []
        self._read_count = -1
        self._sent_ns: dict[int, int] = {}
        self.active_count = 0
        """How many requests are not answered to their end."""

    # ---- what the client sent

    def begin(self, play: Play, now_ns: int) -> None:
        """Begin to answer a request with what was recorded for `play.call`."""
        self.active_count += 1
        self.mark_sent(play.item.number, now_ns)
        self._advance(play, now_ns)

    def mark_sent(self, number: int, now_ns: int) -> None:
        """Note that the client has sent what a recorded client's item holds."""
        self.clients.mark_sent(number)
        if self._speed is not None:
            self._sent_ns.setdefault(number, now_ns)
        self.wake(number, now_ns)

    def wake(self, number: int, now_ns: int) -> None:
        """Go on with what has waited for a client's item."""
        for play in self._client_waits.pop(number, ()):
            self._advance(play, now_ns)
        while self._frontier_waits and self._frontier_waits[0][0] <= self.clients.frontier:
            self._advance(heapq.heappop(self._frontier_waits)[2], now_ns)

    def note_notification(self, method: str, now_ns: int) -> None:
        """Note a notification of the client."""
        number = self.clients.take_notification(method)
        if number is not None:
            self.mark_sent(number, now_ns)

    def note_batch(self, now_ns: int) -> bool:
        """Note a batch of the client without a request; returns whether such a batch was recorded."""
        number = self.clients.take_batch()
        if number is not None:
            self.mark_sent(number, now_ns)
        return number is not None

    def note_answer(self, play: Play | None, call: int, now_ns: int) -> None:
        """Note that the client has answered a request of the server, `call`, that was sent for `play`."""
        recorded = self._script.answer_of(call)
        if play is not None:
            play.answered.add(call)
            if recorded is not None:
                play.base_ns, play.base_item_ns = now_ns, self._script.items[recorded].t_ns
        if recorded is not None:
            self.mark_sent(recorded, now_ns)
        if play is not None and play.waits_for == "answer":
            self._advance(play, now_ns)

    def end(self, play: Play) -> None:
        """Send nothing more for a request."""
        if not play.is_over and not play.is_answered:
            self.active_count -= 1
        play.is_over = True

    @property
    def is_idle(self) -> bool:
        """Whether nothing will be due unless the client asks for more."""
        return self.active_count == 0 and self.next_due_ns is None and not self.clients.unowned

    @property
    def is_reading_on(self) -> bool:
        """Whether a request waits for something that may be read later."""
        return any(not play.is_over for play in self._growth_waits) and not self._script.is_complete

    @property
    def is_all_sent(self) -> bool:
        """Whether the client has sent everything that it had sent in the recording, and got what belongs to it."""
        return self.active_count == 0 and self.clients.is_all_sent and not self.clients.unowned

    # ---- what is due

    def take_due(self, now_ns: int) -> Delivery | None:
        """Take the next item that is due; returns None if there is none."""
        self._run_timers(now_ns)
        self._notice_growth(now_ns)
        self.clients.scan()
        unowned = self._first_unowned_due(now_ns)
        while self._ready and self._ready[0][2].is_over:
            heapq.heappop(self._ready)
        barrier = self._first_spaced
        if barrier is not None:
            # What was recorded later keeps its place after a response that is spaced.
            unowned = None if unowned is None or unowned > barrier else unowned
            if unowned is None and (not self._ready or self._ready[0][0] > barrier):
                return None
        if unowned is not None and not (self._ready and self._ready[0][0] < unowned):
            self.clients.unowned.popleft()
            return Delivery(self._script.items[unowned], None)
        if not self._ready:
            return None
        number, _, play = heapq.heappop(self._ready)
        return self._deliver(play, number, now_ns)

    def _deliver(self, play: Play, number: int, now_ns: int) -> Delivery:
        items = self._script.items
        if number < 0:
            return Delivery(None, play)
        numbers = self._script.items_of_call(play.call)
        rest = (items[number] for number in islice(numbers, play.position + 1, None))
        following = next((item for item in rest if item.sender == "server"), None)
        play.position += 1
        delivery = Delivery(items[number], play, following)
        if self._script.answer_of(play.call) == number:
            play.is_answered = True
            self.active_count -= 1
        if items[number].kind == "request":
            play.asked.add(items[number].call)
        elif items[number].kind == "notification":
            play.noticed_ns, play.noticed_item_ns = now_ns, items[number].t_ns
        self._advance(play, now_ns)
        return delivery

    @property
    def _first_spaced(self) -> int | None:
        """The lowest number of a response that is spaced from the notifications before it; None if there is none."""
        while self._spaced:
            number, _, play = self._spaced[0]
            if not play.is_over and play.waits_for == "time":
                return number
            heapq.heappop(self._spaced)
        return None

    @property
    def next_due_ns(self) -> int | None:
        """When something will be due; None if that depends on the client, or on the growth of the script."""
        times = []
        barrier = self._first_spaced
        if self._ready and (barrier is None or self._ready[0][0] < barrier):
            return 0
        if self._timers:
            times.append(self._timers[0][0])
        unowned = self._unowned_due_ns()
        if unowned is not None and (barrier is None or self.clients.unowned[0].number < barrier):
            times.append(unowned)
        return min(times, default=None)

    def _run_timers(self, now_ns: int) -> None:
        while self._timers and self._timers[0][0] <= now_ns:
            play = heapq.heappop(self._timers)[2]
            if play.is_over:
                continue
            if play.waits_for == "client" and play.end_of_patience_ns is not None and play.end_of_patience_ns <= now_ns:
                self._lose_patience(play, now_ns)
            elif play.waits_for == "time":
                self._advance(play, now_ns)

    def _lose_patience(self, play: Play, now_ns: int) -> None:
        """Stop waiting for what the client does not send, for this answer and for all others."""
        play.is_impatient = True
        number = self._script.items_of_call(play.call)[play.position]
        missing = self.clients.last_missing(play.item.number, number)
        while missing is not None:
            self.clients.give_up(missing)
            self.wake(missing, now_ns)
            missing = self.clients.last_missing(play.item.number, number)
        if play.waits_for == "client":
            self._advance(play, now_ns)

    def _notice_growth(self, now_ns: int) -> None:
        read_count = len(self._script.items) + self._script.is_complete
        # With very many waiting requests, looking at all of them at each step would take quadratic time.
        is_worth_it = len(self._growth_waits) <= 100 or read_count > self._read_count * 1.1 or self._script.is_complete
        if read_count == self._read_count or not is_worth_it:
            return
        self._read_count = read_count
        waiting, self._growth_waits = self._growth_waits, []
        for play in waiting:
            if not play.is_over:
                self._advance(play, now_ns)

    # ---- unowned items

    def _unowned_due_ns(self) -> int | None:
        if not self.clients.unowned:
            return None
        number, anchor = self.clients.unowned[0]
        if anchor > self.clients.frontier:
            return None
        if self._speed is None or anchor not in self._sent_ns:
            return 0
        items = self._script.items
        return self._sent_ns[anchor] + self._pace(items[number].t_ns - items[anchor].t_ns)

    def _first_unowned_due(self, now_ns: int) -> int | None:
        due_ns = self._unowned_due_ns()
        return self.clients.unowned[0].number if due_ns is not None and due_ns <= now_ns else None

    def _pace(self, gap_ns: int) -> int:
        return int(max(0, gap_ns) / (self._speed or 1))

    # ---- one request

    def _advance(self, play: Play, now_ns: int) -> None:
        """Find the next item for a request, and either make it ready or note what it waits for."""
        if play.is_over:
            return
        script = self._script
        numbers = script.items_of_call(play.call)
        while play.position < len(numbers):
            item = script.items[numbers[play.position]]
            if not self._is_passed_over(item, play):
                break
            play.position += 1
        else:
            if play.is_answered:
                play.is_over = True
            elif script.is_over(play.call):
                play.waits_for = ""
                self._push(self._ready, -1, play)
            else:
                play.waits_for = "growth"
                self._growth_waits.append(play)
            return
        if item.sender == "client":
            play.waits_for = "answer"
            return
        due_ns = self._due_ns(item, play)
        if due_ns > now_ns:
            play.waits_for = "time"
            self._push(self._timers, due_ns, play)
            if self._speed is None:
                self._push(self._spaced, item.number, play)
        elif self._is_waiting_for_client(item, play, now_ns):
            return
        else:
            play.waits_for = ""
            self._push(self._ready, item.number, play)

    def _is_passed_over(self, item: Item, play: Play) -> bool:
        """Whether an item is neither sent nor awaited, such as progress that the client did not ask for."""
        if item.sender == "client":
            return item.call not in play.asked or item.call in play.answered
        is_progress = item.method == PROGRESS and item.kind == "notification"
        return item.is_repeat or (is_progress and bool(play.recorded_progress) and not play.progress_token)

    def _due_ns(self, item: Item, play: Play) -> int:
        """Returns when an item is due.

        Even at once, a response that had come later than the notifications before it keeps a little distance: some SDKs
        drop a notification that they read together with the response.
        """
        if self._speed is None:
            is_spaced = item.kind == "response" and item.t_ns - play.noticed_item_ns >= MIN_SPACING_NS
            return play.noticed_ns + SPACING_NS if is_spaced and play.noticed_ns else 0
        return play.base_ns + self._pace(item.t_ns - play.base_item_ns)

    def _is_waiting_for_client(self, item: Item, play: Play, now_ns: int) -> bool:
        if play.is_endless and item.kind != "response":
            anchor = self.clients.anchor_of(item.number)
            if anchor > self.clients.frontier:
                play.waits_for = "frontier"
                self._push(self._frontier_waits, anchor, play)
                return True
            return False
        if play.recorded_id and self._is_waiting_for_cancellation(item, play):
            return True
        if play.is_impatient:
            return False
        missing = self.clients.last_missing(play.item.number, item.number)
        if missing is None:
            return False
        play.waits_for = "client"
        self._client_waits.setdefault(missing, []).append(play)
        if play.end_of_patience_ns is None:
            play.end_of_patience_ns = now_ns + PATIENCE_NS
            self._push(self._timers, play.end_of_patience_ns, play)
        elif play.end_of_patience_ns <= now_ns:
            self._push(self._timers, now_ns, play)
        return True

    def _is_waiting_for_cancellation(self, item: Item, play: Play) -> bool:
        """Whether an item came only after the client had cancelled its request: for that, patience has no end."""
        request = id_of_token(play.recorded_id)
        cancellation = self.clients.missing_cancellation(request, play.item.number, item.number)
        if cancellation is None:
            return False
        play.waits_for = "cancellation"
        self._client_waits.setdefault(cancellation, []).append(play)
        return True

    def _push(self, heap: list[tuple[int, int, Play]], key: int, play: Play) -> None:
        self._count += 1
        heapq.heappush(heap, (key, self._count, play))
