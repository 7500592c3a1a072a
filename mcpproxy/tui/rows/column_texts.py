"""Column texts: what the columns of lists contain, for the list in which they are chosen."""

from typing import Final

MAX_TEXT_CELLS: Final = 44
"""The maximum width of a text, in cells."""
COLUMN_TEXTS: Final = {
    "abandoned": "calls whose answer no longer mattered",
    "age": "how long ago the session began",
    "asked": "how many calls were made",
    "calls": "how many calls were made",
    "capture": "the name of the file",
    "client": "the client, with its version",
    "clock": "the time of day",
    "description": "the first words of the description",
    "errors": "how many calls failed",
    "findings": "what the rules found: worst level, number",
    "frame": "the number of the frame",
    "frames": "how many frames were recorded",
    "http": "the status of the HTTP response",
    "id": "the id of the request",
    "lasted": "how long the session lasted",
    "latency": "the time from the request to the response",
    "mark": "whether the rule is folded",
    "more": "the essential part of the message",
    "most": "the longest time to a response",
    "name": "the name of the tool",
    "number": "the number of the frame",
    "p50": "the time within which half were answered",
    "p90": "the time within which 90 % were answered",
    "p95": "the time within which 95 % were answered",
    "p99": "the time within which 99 % were answered",
    "revision": "the revision of the protocol",
    "server": "the server",
    "session": "the number of the session in the capture",
    "shape": "how the latencies are distributed",
    "size": "the size in bytes",
    "status": "what became of the request",
    "text": "what was found",
    "time": "when it was recorded",
    "tokens": "the estimated number of tokens",
    "traffic": "how busy it was, or what went wrong",
    "transport": "stdio or HTTP",
    "turn": "the client's id of the prompt of the user",
    "unanswered": "calls that have no answer",
    "way": "from the client (→) or from the server (←)",
    "what": "the method, and the name in its parameters",
    "who": "the side that broke the rule",
    "exchanges asked": "the size of the request",
    "exchanges time": "when the request was sent",
    "latency call": "the method, and the name in its parameters",
    "sessions findings": "findings that are errors or warnings",
    "sessions mark": "● live, ○ ended, ✝ died, ▲ lost records",
    "stderr what": "the line that the server wrote",
}
"""The texts, by the name of the column or, if they are those of one list, after the name of the list."""


def column_text(place: str, name: str) -> str:
    """Returns the text of a column of a list, or an empty text if there is none."""
    return COLUMN_TEXTS.get(f"{place} {name}") or COLUMN_TEXTS.get(name, "")
