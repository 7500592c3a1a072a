"""Sharing: writes redacted copies of captures, and searches captures for secrets.

The copy is a capture like any other. Its secrets are replaced with pseudonyms, whose key exists only while the copy is
written. Everything else stays unchanged, so that readers of the copy see the same conversation and the same findings.
"""

from mcpproxy.sharing.account import RedactionAccount
from mcpproxy.sharing.share import ShareOptions, redacted_copy

__all__ = ["RedactionAccount", "ShareOptions", "redacted_copy"]
