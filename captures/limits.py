"""Limits and names that the judges of a frame share: sizes and depths that they examine, and reserved names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MAX_RECORDER_JUDGED_BYTES: Final = 256 * 1024
"""Bytes. A longer frame is not judged while it waits to be forwarded: its parser would hold up every other thread."""

EXACT_JUDGE_LIMIT: Final = 32 * 1024
"""Bytes. The most that is judged exactly while it waits to be forwarded; the worst such text takes about 12 ms."""

MAX_READER_JUDGED_BYTES: Final = 16 * 1024 * 1024
"""Bytes. The most that a reader judges, as nothing waits for it."""

MAX_STRUCTURAL_CHARS: Final = 1_000_000
"""Opening brackets, commas and colons outside strings. A frame with more of them is not judged: its values would take
twenty times as much memory as its bytes, as `{"a":0},` repeated does."""

DEEP: Final = 200
"""Levels of arrays and objects. More are reported as `framing/too-deep`."""

TOO_DEEP: Final = 512
"""Levels. Deeper frames are not judged at all. Far below what our parsers accept: orjson's 1,024, Python's stack."""

MAX_ENVELOPE_TEXT_BYTES: Final = 256
"""Bytes. A longer id token or method is left out of the envelope."""

SHORT: Final = 60
"""Characters that stay below `MAX_ENVELOPE_TEXT_BYTES` in any encoding, quotes included."""

SAFE: Final = 2**53 - 1
MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
NOTIFICATIONS: Final = "notifications/"
RESERVED: Final = "rpc."
