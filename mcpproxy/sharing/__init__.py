"""Sharing: a redacted copy of a capture, and the search for secrets in one.

The copy is a capture like any other. Its secrets are replaced by pseudonyms under a key that exists only while the copy
is made; everything else stays as it was, so that readers of the copy see the same conversation and the same findings.
"""

from mcpproxy.sharing.account import RedactionAccount
from mcpproxy.sharing.share import ShareOptions, redacted_copy

__all__ = ["RedactionAccount", "ShareOptions", "redacted_copy"]
