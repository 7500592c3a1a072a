"""Script: the items of a capture in order, read while the first answers are given, and cached for the next time.

A script is made by one reading (`analysis.reading`), or read back from its cache. It grows while it is used: the
beginning of a conversation can be played long before the end has been read. What is known of an item never changes,
except that its call may still be answered by a later item.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import TYPE_CHECKING, Final, overload

from msgspec.structs import replace

from analysis.garbage import rare_collections
from analysis.playback.items import Ending, HttpAnswer, Item
from analysis.playback.matching import Matching
from analysis.playback.script_cache import (
    FIRST_CHUNK_ITEMS,
    MAX_CHUNK_ITEMS,
    MIN_CAPTURE_BYTES,
    Mark,
    ScriptCache,
    StaleScriptError,
    load,
)
from analysis.playback.script_table import ScriptTable
from analysis.playback.stored_bytes import StoredBytes
from captures.errors import NotACapture
from captures.listing import segments, total_size
from captures.record import raw_bytes

if TYPE_CHECKING:
    from analysis.playback.script_reading import ScriptReading

THREAD_STEP: Final = 100
"""How many records a thread reads before it lets others run: less than a millisecond."""
_TRANSPORTS: Final = ("stdio", "http", "import")


class Script:
    """The items of one capture so far. One thread grows it, another one reads it: no lock, as it only appends."""

    def __init__(self, path: Path, matching: Matching) -> None:
        """Open a capture; nothing is read yet.

        Raises:
            CaptureError: there is nothing to read, it is not a capture, or a later version wrote it.
        """
        self._path, self._matching = path, matching
        self._table, self._bytes = ScriptTable(), StoredBytes()
        self._ending: Ending | None = None
        self._transport = ""
        self._marks: list[Mark] = []
        self._thread: Thread | None = None
        self._stop = Event()
        self._reading: ScriptReading | None = None
        self._chunks: Iterator[bytes] = iter(())
        files = segments(path)
        self._cache = ScriptCache(path, matching) if total_size(files) >= MIN_CAPTURE_BYTES else None
        if self._cache is None or not self._load_first(self._cache, files):
            self._reading = self._open_reading()

    def _load_first(self, cache: ScriptCache, files: list[Path]) -> bool:
        """Load the first chunk of the cache; return whether there is one."""
        self._chunks = cache.chunks()
        try:
            self._transport, self._ending = load(next(self._chunks), self._table)
        except (StaleScriptError, StopIteration):
            return False
        for file in files:
            self._bytes.add_segment(file)
        return True

    def _open_reading(self) -> "ScriptReading":
        from analysis.playback.script_reading import ScriptReading  # most of the time that a cache saves at the start

        self._table.begin_again()
        self._bytes.forget_segments()
        reading = ScriptReading(self._path, self._matching, self._table, self._bytes)
        self._transport = reading.transport
        return reading

    # ---- growing

    def grow(self, limit: int = 1_000) -> bool:
        """Read up to `limit` more records; return False if the script is complete.

        What comes from the cache comes in pieces of its own size.
        """
        if self._ending is not None:
            return False
        if self._reading is None:
            try:
                self._transport, self._ending = load(next(self._chunks), self._table)
            except StaleScriptError:
                self._reading = self._open_reading()
        else:
            ending = self._reading.grow(limit)
            if self._cache is not None:
                self._mark(is_last=ending is not None)
            self._ending = ending
        return self._ending is None

    def _mark(self, *, is_last: bool) -> None:
        """Note how much of the table exists, so that the cache has it in pieces."""
        done = self._marks[-1].items if self._marks else 0
        if is_last or len(self._table) - done >= (MAX_CHUNK_ITEMS if done else FIRST_CHUNK_ITEMS):
            self._marks.append(Mark.of(self._table))

    def grow_in_thread(self, on_growth: Callable[[], None]) -> None:
        """Grow to the end in a thread; `on_growth` is called in it after each step, and when the script is complete.

        A complete script of a closed capture is kept in the cache.
        """
        self._thread = Thread(target=self._grow_to_end, args=(on_growth,), name="script", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the thread has grown the script to the end, and has kept it in the cache; at most some seconds."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def close(self) -> None:
        """Stop growing, and close the files."""
        self._stop.set()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join()
        if self._reading is not None:
            self._reading.close()
        self._bytes.close()

    def _grow_to_end(self, on_growth: Callable[[], None]) -> None:
        with rare_collections():
            try:
                is_growing = self._ending is None
                while is_growing and not self._stop.is_set():
                    is_growing = self.grow(THREAD_STEP)
                    on_growth()
                    time.sleep(0)  # another thread that waits for the interpreter gets it now
            except Exception:  # noqa: BLE001 - a request must not wait for ever
                self._ending = Ending(
                    by_server=False,
                    status=None,
                    signal=None,
                    t_ns=0,
                    is_whole=False,
                    begins_late=False,
                    is_growing=False,
                    caveats=("a fault of mcpproxy ended the reading early",),
                    is_lossy=True,
                )
                self._cache = None
                on_growth()
            if self._ending is not None and self._reading is not None:
                self.save()

    def save(self) -> bool:
        """Keep the script in the cache if it is complete, and was not loaded from there; return whether it is kept."""
        if self._cache is None or self._ending is None or self._reading is None:
            return False
        return self._cache.save(self._table, self._marks, self.transport, self._ending, self._stop.is_set)

    # ---- reading

    @property
    def is_complete(self) -> bool:
        """Whether everything has been read."""
        return self._ending is not None

    @property
    def is_from_cache(self) -> bool:
        """Whether all of it so far was read from the cache."""
        return self._reading is None

    @property
    def ending(self) -> Ending | None:
        """How the recording ended; None until the script is complete."""
        return self._ending

    @property
    def transport(self) -> str:
        """`stdio`, `http` or `import`."""
        if self._transport in _TRANSPORTS:
            return self._transport
        return "http" if self._table.http_answers else "stdio"

    @property
    def items(self) -> Sequence[Item]:
        """All items so far, in order."""
        return self._table

    @property
    def sessions(self) -> Sequence[int]:
        """The numbers of the sessions so far, in the order in which they began."""
        return self._table.sessions

    def items_of(self, session: int) -> Sequence[int]:
        """Returns the numbers of the items of a session so far, in order; the list grows.

        Session 0 has the lines of stderr.
        """
        return self._table.items_of(session)

    def requests(self, session: int, key: str) -> Sequence[int]:
        """Returns the numbers of the items of a session so far that are client's requests with this key, in order.

        A batch is listed under the key of each of its requests.
        """
        return self._table.requests(session, key)

    def items_of_call(self, call: int) -> Sequence[int]:
        """Returns the numbers of the items that belong to a client's call so far, in order.

        These are the server's items with this `call`, its requests with this `outer`, and the client's responses to
        them. The response to the call is the last, if one came.
        """
        return self._table.items_of_call(call)

    def answer_of(self, call: int) -> int | None:
        """Returns the number of the item that answers a call of either side; None if there is none so far."""
        return self._table.answer_of(call)

    def is_over(self, call: int) -> bool:
        """Whether nothing more can belong to a call: it was answered, or the script is complete.

        The same is true of a call whose HTTP exchange ended without a response.
        """
        return self._ending is not None or self._table.has_ended(call)

    def http_answer(self, exchange: int) -> HttpAnswer | None:
        """Returns how an HTTP exchange was answered; None if no head of a response has been read so far."""
        answer = self._table.http_answers.get(exchange)
        place = self._table.response_texts.get(exchange)
        if answer is None or place is None:
            return answer
        members = self._bytes.members_at(*place) or {}
        text, raw = members.get("response_text"), raw_bytes(members)
        if raw is not None:
            text = raw.decode("utf-8", "replace")
        return replace(answer, text=text) if isinstance(text, str) else answer

    def is_response_text(self, item: Item) -> bool:
        """Whether an item answers no request and was the body of an HTTP response: it is the text of its answer."""
        place = item.stored.segment, item.stored.offset
        return bool(item.exchange) and self._table.response_texts.get(item.exchange) == place

    def http_answers_of(self, session: int) -> Sequence[HttpAnswer]:
        """Returns how the exchanges of a session were answered that carried no message of the client, in order.

        These are GET, DELETE and OPTIONS; the list grows.
        """
        return _HttpAnswers(self, self._table.other_exchanges(session))

    def raw(self, item: Item) -> bytes:
        """Returns the exact bytes of an item, without its delimiter; of a message over several lines, all of these.

        Raises:
            CaptureError: the record can no longer be read, because the file was changed or is gone.
        """
        stored = item.stored
        raw = self._bytes.raw_at(stored.segment, stored.offset, stored.parts)
        if raw is None:
            raise NotACapture(f"cannot read record {item.seq} of {self._path} again: the file has changed")
        return raw


class _HttpAnswers(Sequence[HttpAnswer]):
    """The answers of exchanges, read on access."""

    def __init__(self, script: Script, exchanges: Sequence[int]) -> None:
        self._script, self._exchanges = script, exchanges

    def __len__(self) -> int:
        return len(self._exchanges)

    @overload
    def __getitem__(self, number: int) -> HttpAnswer: ...
    @overload
    def __getitem__(self, number: slice) -> list[HttpAnswer]: ...
    def __getitem__(self, number: int | slice) -> HttpAnswer | list[HttpAnswer]:
        if isinstance(number, slice):
            return [self._answer(exchange) for exchange in self._exchanges[number]]
        return self._answer(self._exchanges[number])

    def _answer(self, exchange: int) -> HttpAnswer:
        answer = self._script.http_answer(exchange)
        assert answer is not None
        return answer
