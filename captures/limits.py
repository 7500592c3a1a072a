"""What the judges of a frame share: sizes and depths beyond which they do not look, names that mean something."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

RECORD_LIMIT: Final = 256 * 1024
"""Bytes. A longer frame is not judged while it waits to be forwarded: its parser would hold up every other thread."""

ODD_LIMIT: Final = 32 * 1024
"""Bytes. What is judged exactly while it waits to be forwarded; the worst text of this size takes some 12 ms."""

READER_LIMIT: Final = 16 * 1024 * 1024
"""Bytes. What a reader, for whom nobody waits, judges at most."""

MOST_VALUES: Final = 1_000_000
"""Brackets that open, commas and colons outside of strings. A frame with more of them is not judged: its values would
take twenty times as much memory as its bytes, which `{"a":0},` again and again does."""

DEEP: Final = 200
"""Levels of arrays and objects. More of them are `framing/too-deep`."""

TOO_DEEP: Final = 512
"""Levels. More of them are not judged at all. Far below what stops the parsers here: orjson's 1,024, Python's stack."""

LONGEST: Final = 256
"""Bytes. An id's token or a method that is longer is left out of the envelope."""

SHORT: Final = 60
"""Characters that stay below LONGEST in any encoding, quotes included."""

SAFE: Final = 2**53 - 1
MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
NOTIFICATIONS: Final = "notifications/"
RESERVED: Final = "rpc."
