"""The group `auth`: credentials as far as requests and challenges show them."""

from analysis.rules.auth_challenge import (
    ChallengeMissing,
    InsufficientScopeShape,
    OfflineAccess,
    ResourceMetadataMissing,
    ScopeMissing,
)
from analysis.rules.auth_documents import MetadataDocument, MetadataPath, OauthRequest
from analysis.rules.auth_tokens import Dropped, NotBearer, PlainHttp, RetryLoop, TokenInQuery

__all__ = [
    "ChallengeMissing",
    "Dropped",
    "InsufficientScopeShape",
    "MetadataDocument",
    "MetadataPath",
    "NotBearer",
    "OauthRequest",
    "OfflineAccess",
    "PlainHttp",
    "ResourceMetadataMissing",
    "RetryLoop",
    "ScopeMissing",
    "TokenInQuery",
]
