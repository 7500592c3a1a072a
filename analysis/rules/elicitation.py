"""The group `elicitation`: what a server has the user asked for, and what comes of it."""

from analysis.rules.elicitation_form import (
    ClickableUrl,
    IdInModern,
    LegacyEnumNames,
    RequiredUnknown,
    SchemaNotFlat,
    Sensitive,
)
from analysis.rules.elicitation_reply import (
    AcceptWithoutContent,
    ContentMismatch,
    ContentUnexpected,
)
from analysis.rules.elicitation_url import (
    CompleteTwice,
    CompleteUnknown,
    DuplicateId,
    UrlCredentials,
    UrlInvalid,
    UrlNotHttps,
)

__all__ = [
    "AcceptWithoutContent",
    "ClickableUrl",
    "CompleteTwice",
    "CompleteUnknown",
    "ContentMismatch",
    "ContentUnexpected",
    "DuplicateId",
    "IdInModern",
    "LegacyEnumNames",
    "RequiredUnknown",
    "SchemaNotFlat",
    "Sensitive",
    "UrlCredentials",
    "UrlInvalid",
    "UrlNotHttps",
]
