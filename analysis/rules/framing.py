"""The group `framing`: from bytes to JSON, in lines, bodies and events."""

from analysis.rules.framing_lines import (
    BlankLine,
    Bom,
    Crlf,
    EmbeddedNewline,
    InvalidUtf8,
    LspHeader,
    MissingFinalNewline,
    NotAMessage,
    OversizedMessage,
    SeveralMessagesOnALine,
    StdinNotJson,
    StdoutNotJson,
    TruncatedMessage,
)
from analysis.rules.framing_values import DuplicateKey, LoneSurrogate, NonJsonNumber, TooDeep

__all__ = [
    "BlankLine",
    "Bom",
    "Crlf",
    "DuplicateKey",
    "EmbeddedNewline",
    "InvalidUtf8",
    "LoneSurrogate",
    "LspHeader",
    "MissingFinalNewline",
    "NonJsonNumber",
    "NotAMessage",
    "OversizedMessage",
    "SeveralMessagesOnALine",
    "StdinNotJson",
    "StdoutNotJson",
    "TooDeep",
    "TruncatedMessage",
]
