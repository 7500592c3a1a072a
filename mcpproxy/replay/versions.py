"""The revision that client and server agree on, in the recording and now."""

from typing import Any, Final, NamedTuple

from analysis.conversation.message import Response
from analysis.protocol.revisions import FIRST_MODERN_RANK, rank_of

VERSION_MEMBER: Final = "io.modelcontextprotocol/protocolVersion"
"""The member of `_meta` with which requests of the modern era say their revision."""


class Replacement(NamedTuple):
    """A member of the client's messages that gets another value."""

    member: str
    recorded: str
    new: str


def agreed_version(response: Response) -> str | None:
    """Returns the revision in the answer to `initialize`, or None if there is none. Untrusted text."""
    result = response.body.get("result")
    version = result.get("protocolVersion") if isinstance(result, dict) else None
    return version if isinstance(version, str) and version.isascii() and version.isprintable() else None


def replacing_version(recorded: Response | None, response: Response) -> Replacement | None:
    """Returns the revision to use in `_meta`, if the server no longer supports what it supported when recorded."""
    new = _supported(response)
    old = [] if recorded is None else _supported(recorded)
    if not new or not old or old[-1] in new:
        return None
    return Replacement(VERSION_MEMBER, old[-1], new[-1])


def _supported(response: Response) -> list[str]:
    """Returns the modern revisions that a server supports, oldest first."""
    result: Any = response.body.get("result")
    versions = result.get("supportedVersions") if isinstance(result, dict) else None
    known = [
        (rank, version)
        for version in (versions if isinstance(versions, list) else ())
        if isinstance(version, str) and (rank := rank_of(version)) is not None and rank >= FIRST_MODERN_RANK
    ]
    return [version for _, version in sorted(known)]
