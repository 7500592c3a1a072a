"""The group `mrtr`: calls of several rounds, in which a server asks back and the client calls again."""

from analysis.rules.mrtr_asked import (
    Empty,
    EnvelopeInInputRequest,
    InHandshakeEra,
    InvalidInputRequest,
    ManyRounds,
    UndeclaredCapability,
    UnsupportedMethod,
    WrongResultType,
)
from analysis.rules.mrtr_retry import (
    InvalidInputResponse,
    NotRetried,
    ParamsChanged,
    ResponsesMissing,
    SameId,
    StateInvented,
    StateNotEchoed,
    StateOnOtherRequest,
    UnknownResponseKey,
    Unsolicited,
)

__all__ = [
    "Empty",
    "EnvelopeInInputRequest",
    "InHandshakeEra",
    "InvalidInputRequest",
    "InvalidInputResponse",
    "ManyRounds",
    "NotRetried",
    "ParamsChanged",
    "ResponsesMissing",
    "SameId",
    "StateInvented",
    "StateNotEchoed",
    "StateOnOtherRequest",
    "UndeclaredCapability",
    "UnknownResponseKey",
    "Unsolicited",
    "UnsupportedMethod",
    "WrongResultType",
]
