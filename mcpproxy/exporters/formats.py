"""The formats that the name of a file chooses. Exporting loads much more than this table."""

from collections.abc import Mapping
from typing import Final

FORMAT_OF_SUFFIX: Final[Mapping[str, str]] = {".har": "har", ".md": "markdown"}
"""The format of a file by the extension of its name; the extensions of the other formats are ambiguous."""
