"""What the metadata of a package say of its repository, whose address only a release knows.

`MCPPROXY_REPOSITORY` is that address. The package then links to it, and the relative links of the README, which package
indexes show elsewhere, become absolute. Without it, a package has no links, and its README is the file as it is.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?!https?:|#|mailto:)([^)\s]+\))")


class RepositoryLinks(MetadataHookInterface):
    """Adds the links and the README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the metadata."""
        address = os.environ.get("MCPPROXY_REPOSITORY", "").rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        if address:
            metadata["urls"] = {
                "Source": address,
                "Documentation": f"{address}/tree/HEAD/docs",
                "Changelog": f"{address}/blob/HEAD/CHANGELOG.md",
                "Issues": f"{address}/issues",
            }
            text = _LINK.sub(lambda m: f"{m[1]}{m[2]}{address}/{'raw' if m[1] else 'blob'}/HEAD/{m[3]}", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
