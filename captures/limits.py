"""Limits and names that the judges of frames share: the sizes and depths that they examine, and reserved names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MAX_RECORDER_JUDGED_BYTES: Final = 256 * 1024
"""The most bytes of a frame that is judged while it waits to be forwarded: the parser blocks all other threads."""

MAX_EXACTLY_JUDGED_BYTES: Final = 32 * 1024
"""The most bytes that are judged exactly while they wait to be forwarded; the worst such text takes about 12 ms."""

MAX_READER_JUDGED_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of a frame that a reader judges, which delays no traffic."""

MAX_STRUCTURAL_CHARS: Final = 1_000_000
"""The most opening brackets, commas and colons outside strings. A frame with more is not judged: its values could take
twenty times as much memory as its bytes, as a repeated `{"a":0},` does."""

MAX_DEPTH: Final = 200
"""The most nested arrays and objects; deeper frames are reported as `framing/too-deep`."""

MAX_JUDGED_DEPTH: Final = 512
"""The most nested arrays and objects in a frame that is judged: far fewer than the parsers accept (1,024 in orjson, and
Python's stack in `json`)."""

MAX_ENVELOPE_TEXT_BYTES: Final = 256
"""The most bytes of an id token or a method; longer ones are left out of the envelope."""

MAX_SHORT_CHARS: Final = 60
"""A number of characters that always fits in `MAX_ENVELOPE_TEXT_BYTES`, in any encoding and with quotes."""

MAX_SAFE_INTEGER: Final = 2**53 - 1
ENVELOPE_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
NOTIFICATION_PREFIX: Final = "notifications/"
RESERVED_PREFIX: Final = "rpc."
