"""What is not a manifest is refused."""

import pytest

from mcpproxy.shipping.destination import Broken
from mcpproxy.shipping.manifest import day_of, manifest_of


def test_what_is_not_a_manifest_is_refused() -> None:
    for text in (b"", b"[]", b"{}", b'{"format": 1}', b'{"format": "1"}', b"[" * 100_000):
        with pytest.raises(Broken, match="not a manifest"):
            manifest_of(text, "it")
        with pytest.raises(Broken, match="not a manifest"):
            day_of(text, "it")
    with pytest.raises(Broken, match="update mcpproxy"):
        manifest_of(b'{"format": 2}', "it")
