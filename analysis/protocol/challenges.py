"""The grammar of `WWW-Authenticate` (RFC 9110 §11.6.1): which challenges a response has, with their parameters."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

NONCE_ERROR: Final = "use_dpop_nonce"
"""The error that asks a client to repeat its request with a nonce in its proof (RFC 9449 §8, §9)."""
_MAX_CHALLENGE_CHARS: Final = 8192
_WORD: Final = re.compile(r"([\w!#$%&'*+.^`|~-]+)(?:[ \t]*=[ \t]*(\"[^\"\\]*(?:\\.[^\"\\]*)*\"|[^\s,\"]+))?", re.ASCII)


class Challenge(NamedTuple):
    """One challenge of a response."""

    scheme: str
    """The authentication scheme, in lower case."""
    parameters: dict[str, str]
    """The values of the parameters, by name in lower case."""


def parse_challenges(values: Iterable[str]) -> list[Challenge]:
    """Returns the challenges in values of `WWW-Authenticate`; of each value, only the first 8,192 characters count."""
    challenges: list[Challenge] = []
    for value in values:
        for word in _WORD.finditer(value[:_MAX_CHALLENGE_CHARS]):
            name, text = word[1].lower(), word[2]
            if text is None:
                challenges.append(Challenge(name, {}))
            elif challenges:
                challenges[-1].parameters.setdefault(name, text[1:-1] if text.startswith('"') else text)
    return challenges
