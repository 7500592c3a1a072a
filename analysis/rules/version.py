"""The group `version`: which revision is spoken, and how both sides come to it."""

from analysis.rules.version_choice import (
    DiscoverMissing,
    Fallback,
    FallbackDespiteModern,
    InitializeRefusedSilently,
    MixedOnConnection,
    RetryUnlisted,
    StdioNoProbe,
    SupportedButRejected,
    UnsupportedNotRejected,
    UnsupportedRequestedWrong,
)
from analysis.rules.version_names import (
    Malformed,
    ModernInHandshake,
    NewerMember,
    RefusedThoughSupported,
    ServerChoseOther,
    Unknown,
)

__all__ = [
    "DiscoverMissing",
    "Fallback",
    "FallbackDespiteModern",
    "InitializeRefusedSilently",
    "Malformed",
    "MixedOnConnection",
    "ModernInHandshake",
    "NewerMember",
    "RefusedThoughSupported",
    "RetryUnlisted",
    "ServerChoseOther",
    "StdioNoProbe",
    "SupportedButRejected",
    "Unknown",
    "UnsupportedNotRejected",
    "UnsupportedRequestedWrong",
]
