"""The group `error`: codes of errors, and what has to be said beside them."""

from analysis.rules.error_answers import (
    ElicitationModeCode,
    PingRefused,
    ResourceNotFoundCode,
    RootsUnsupportedCode,
    SamplingCode,
    UnsupportedVersionData,
    UnsupportedVersionShape,
    UrlElicitationShape,
    UrlElicitationUnsupported,
)
from analysis.rules.error_codes import (
    AnError,
    Internal,
    LegacyRange,
    MisusedMcpCode,
    ParseErrorForValidJson,
    ReservedCode,
    RetiredCode,
    UndefinedMcpCode,
    UnknownMethodCode,
)
from analysis.rules.error_lists import PromptArgsCode, ToolInputAsProtocolError, UnknownToolAsResult, UnknownToolCode

__all__ = [
    "AnError",
    "ElicitationModeCode",
    "Internal",
    "LegacyRange",
    "MisusedMcpCode",
    "ParseErrorForValidJson",
    "PingRefused",
    "PromptArgsCode",
    "ReservedCode",
    "ResourceNotFoundCode",
    "RetiredCode",
    "RootsUnsupportedCode",
    "SamplingCode",
    "ToolInputAsProtocolError",
    "UndefinedMcpCode",
    "UnknownMethodCode",
    "UnknownToolAsResult",
    "UnknownToolCode",
    "UnsupportedVersionData",
    "UnsupportedVersionShape",
    "UrlElicitationShape",
    "UrlElicitationUnsupported",
]
