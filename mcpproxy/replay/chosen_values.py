"""New values that the server chose, such as cursors and task ids, in place of the recorded ones that the client sent.

They are learnt by walking through a recorded answer and the new one side by side: values at the same place in both, in
a member that `rule_of_member` knows as an id or a cursor, denote the same thing. Texts that are JSON are walked
through, too, as many servers put their results into one.
"""

import json
import re
from typing import Any, Final

from analysis.comparison.values.varying_members import META, rule_of_member
from analysis.conversation.message import id_of, id_of_token, parse_exactly

MAX_VALUES: Final = 100_000
"""The maximum number of values that are remembered; others are sent as they were recorded."""
_MAX_STEPS: Final = 200_000
"""The maximum number of values of one answer that are walked through."""
_MIN_FREE_CHARS: Final = 8
"""The length from which a text is recognised in any member; a shorter one only in members for ids."""
_MAX_TEXT_CHARS: Final = 1 << 20
"""Longer texts are neither parsed as JSON nor remembered."""
_MAX_MESSAGE_BYTES: Final = 4 << 20
"""Longer messages of the client are sent as they were recorded."""
_MAX_VALUE_BYTES: Final = 256 << 10
"""Longer values are neither remembered nor looked up."""
_MAX_TOTAL_BYTES: Final = 64 << 20
"""The maximum size of all values that are remembered."""
_MAX_NAME_CHARS: Final = 256
_OF_CLIENT: Final = frozenset({"requestId", "progressToken"})
"""Members whose values the client chose, or that are translated with the ids of requests."""
_ASKED: Final = "inputRequests"
_ANSWERED: Final = b"inputResponses"
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)
_NAMES_OF_CONTENT: Final = frozenset({b"params", b"result"})


class ChosenValues:
    """What the server chose in this run, by what it had chosen in the recording."""

    def __init__(self) -> None:
        """Begin without values."""
        self._token_by_recorded: dict[tuple[str, str], bytes] = {}
        """JSON tokens of new values, by the type and text of recorded ones."""
        self._total_bytes = 0
        self._token_by_member: dict[str, bytes] = {}
        self._token_by_name: dict[bytes, bytes] = {}
        """New names of inputs that the server asks for, as JSON tokens, by the recorded ones."""

    def __len__(self) -> int:
        return len(self._token_by_recorded)

    # ---- learning

    def learn(self, recorded: Any, new: Any) -> None:
        """Remember the ids and cursors that differ between a recorded value and the new one in its place."""
        pending: list[tuple[str, Any, Any]] = [("", recorded, new)]
        for _ in range(_MAX_STEPS):
            if not pending or len(self._token_by_recorded) >= MAX_VALUES:
                return
            name, old_value, new_value = pending.pop()
            if isinstance(old_value, dict) and isinstance(new_value, dict):
                if name == _ASKED:
                    self._learn_names(old_value, new_value)
                pending += [(key, old_value[key], new_value[key]) for key in old_value if key in new_value]
            elif isinstance(old_value, list) and isinstance(new_value, list):
                pending += [(name, *pair) for pair in zip(old_value, new_value, strict=False)]
            elif isinstance(old_value, str) and isinstance(new_value, str):
                self._learn_text(name, old_value, new_value, pending)
            elif _is_number(old_value) and _is_number(new_value) and _is_chosen_by_server(name):
                self._note(old_value, new_value)

    def _learn_names(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        """Remember the names of the inputs that the server asks for, if it gives each one a new name."""
        if len(old) == len(new) and old.keys().isdisjoint(new):
            for old_name, new_name in zip(old, new, strict=True):
                if len(self._token_by_name) < MAX_VALUES and len(new_name) <= _MAX_NAME_CHARS:
                    self._token_by_name[json.dumps(old_name).encode()] = json.dumps(new_name).encode()

    def _learn_text(self, name: str, old_text: str, new_text: str, pending: list[tuple[str, Any, Any]]) -> None:
        if old_text == new_text or max(len(old_text), len(new_text)) > _MAX_TEXT_CHARS:
            return
        if _is_chosen_by_server(name):
            self._note(old_text, new_text)
        elif old_text[:1] in ("{", "[") and new_text[:1] == old_text[:1]:
            old_value, new_value = _parsed(old_text), _parsed(new_text)
            if old_value is not None and new_value is not None:
                pending.append((name, old_value, new_value))

    def _note(self, old_value: str | float, new_value: str | float) -> None:
        old_id, new_id = id_of(old_value), id_of(new_value)
        if old_id == new_id:
            return
        token = (json.dumps(new_value) if isinstance(new_value, str) else new_id.value).encode()
        if len(token) <= _MAX_VALUE_BYTES and self._total_bytes + len(token) <= _MAX_TOTAL_BYTES:
            self._total_bytes += len(token)
            self._token_by_recorded[old_id.type, old_id.value] = token

    # ---- substituting

    def replace_member(self, name: str, value: str) -> None:
        """Put a value into every member of this name from now on."""
        self._token_by_member[name] = json.dumps(value).encode()

    def substituted(self, raw: bytes) -> bytes:
        """Returns a message of the client with the new values; all other bytes stay as they are."""
        if (
            not (self._token_by_recorded or self._token_by_member or self._token_by_name)
            or len(raw) > _MAX_MESSAGE_BYTES
        ):
            return raw
        pieces: list[bytes] = []
        position = 0
        for start, end, token in self._replacements(raw):
            pieces += (raw[position:start], token)
            position = end
        return b"".join((*pieces, raw[position:]))

    def _replacements(self, raw: bytes) -> list[tuple[int, int, bytes]]:
        """Returns where in a message the recorded values are, and what comes in their place."""
        found: list[tuple[int, int, bytes]] = []
        containers: list[tuple[bytes, bytes, bool]] = []
        """For each open container: its first byte, the name of the member that it is in, whether it is content."""
        opening, outer_name, is_content, name, is_name = b"", b"", False, b"", False
        for match in _TOKEN.finditer(raw):
            token = match[0]
            if token in (b"{", b"["):
                containers.append((opening, outer_name, is_content))
                is_content = is_content or name in _NAMES_OF_CONTENT
                opening, outer_name, is_name = token, name, token == b"{"
            elif token in (b"}", b"]"):
                if not containers:
                    return []  # not JSON
                opening, outer_name, is_content = containers.pop()
            elif token == b",":
                is_name = opening == b"{"
                name = outer_name if opening == b"[" else b""
            elif token == b":":
                is_name = False
            elif is_name:
                name = token[1:-1]
                if outer_name == _ANSWERED and (new_name := self._token_by_name.get(token)) is not None:
                    found.append((match.start(), match.end(), new_name))
            elif is_content and len(token) <= _MAX_VALUE_BYTES and (new := self._new_token(name, token)) is not None:
                found.append((match.start(), match.end(), new))
        return found

    def _new_token(self, name: bytes, token: bytes) -> bytes | None:
        is_text, text_name = token[:1] == b'"', name.decode("utf-8", "replace")
        if is_text and text_name in self._token_by_member:
            return self._token_by_member[text_name]
        if not is_text and token[:1] not in b"-0123456789":
            return None
        if text_name in _OF_CLIENT:
            return None
        if not _is_id(text_name) and not (is_text and len(token) >= _MIN_FREE_CHARS + 2):
            return None
        try:
            key = id_of_token(token)
        except (ValueError, RecursionError):
            return None
        return self._token_by_recorded.get((key.type, key.value))


def _is_chosen_by_server(name: str) -> bool:
    return name not in _OF_CLIENT and name != META and rule_of_member(name) in ("id", "cursor")


def _is_id(name: str) -> bool:
    return _is_chosen_by_server(name) or name.lower() == "id" or name.endswith(("Id", "_id"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parsed(text: str) -> Any:
    try:
        return parse_exactly(text.encode())
    except (ValueError, RecursionError):
        return None
