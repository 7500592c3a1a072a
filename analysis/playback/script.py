"""Script: the items of a capture in order, read behind the first answers and kept for the next time.

A script is made by one reading (`analysis.reading`), or read back from a cache of that. It grows while it is used: the
beginning of a conversation can be played long before the end has been read. What is known of an item never changes,
except that its call may still be answered by a later item.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from analysis.playback.items import Ending, HttpAnswer, Item
from analysis.playback.matching import Matching


class Script:
    """The items of one capture so far. One thread grows it, another one reads it; `lock`-free, as it only appends."""

    def __init__(self, path: Path, matching: Matching) -> None:
        """Open a capture; nothing is read yet.

        Raises:
            CaptureError: there is nothing to read, it is not a capture, or a later version wrote it.
        """
        raise NotImplementedError

    # ---- growing

    def grow(self, limit: int = 1_000) -> bool:
        """Read up to `limit` more records; return False if the script is complete."""
        raise NotImplementedError

    def grow_in_thread(self, on_growth: Callable[[], None]) -> None:
        """Grow to the end in a thread; `on_growth` is called in it after each step, and when the script is complete.

        A complete script of a closed capture is kept in the cache.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Stop growing, and close the files."""
        raise NotImplementedError

    # ---- reading

    @property
    def is_complete(self) -> bool:
        """Whether everything has been read."""
        raise NotImplementedError

    @property
    def ending(self) -> Ending | None:
        """How the recording ended; None until the script is complete."""
        raise NotImplementedError

    @property
    def transport(self) -> str:
        """`stdio`, `http` or `import`."""
        raise NotImplementedError

    @property
    def items(self) -> Sequence[Item]:
        """All items so far, in order."""
        raise NotImplementedError

    @property
    def sessions(self) -> Sequence[int]:
        """The numbers of the sessions so far, in the order in which they began."""
        raise NotImplementedError

    def items_of(self, session: int) -> Sequence[int]:
        """Returns the numbers of the items of a session so far, in order; the list grows."""
        raise NotImplementedError

    def requests(self, session: int, key: str) -> Sequence[int]:
        """Returns the numbers of the items of a session so far that are client's requests with this key, in order.

        A batch is listed under the key of each of its requests.
        """
        raise NotImplementedError

    def items_of_call(self, call: int) -> Sequence[int]:
        """Returns the numbers of the items that belong to a client's call so far, in order.

        These are the server's items with this `call`, its requests with this `outer`, and the client's responses to
        them. The response to the call is the last, if one came.
        """
        raise NotImplementedError

    def answer_of(self, call: int) -> int | None:
        """Returns the number of the item that answers a call of either side; None if there is none so far."""
        raise NotImplementedError

    def is_over(self, call: int) -> bool:
        """Whether nothing more can belong to a call: it was answered, or the script is complete."""
        raise NotImplementedError

    def http_answer(self, exchange: int) -> HttpAnswer | None:
        """Returns how an HTTP exchange was answered; None if no head of a response has been read so far."""
        raise NotImplementedError

    def http_answers_of(self, session: int) -> Sequence[HttpAnswer]:
        """Returns how the exchanges of a session were answered that carried no message of the client, in order.

        These are GET, DELETE and OPTIONS; the list grows.
        """
        raise NotImplementedError

    def raw(self, item: Item) -> bytes:
        """Returns the exact bytes of an item, without its delimiter.

        Raises:
            CaptureError: the record cannot be read any more, because the file was changed or is gone.
        """
        raise NotImplementedError
