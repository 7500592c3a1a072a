"""New ids for requests with the same id, of clients that now share a connection."""

import json
from typing import Final

from analysis.conversation.message import Id, Request, id_of
from analysis.playback.incoming import client_messages_in
from analysis.playback.translation import Substitutes, canonical_token, translated
from mcpproxy.replay.open_calls import OpenCalls

_MAX_IDS: Final = 100_000


class NewIds:
    """The ids that had to be changed; usually none."""

    def __init__(self) -> None:
        """Begin without new ids."""
        self._by_recorded: dict[tuple[int, Id], Id] = {}
        self._recorded: dict[Id, Id] = {}
        self._count = 0

    def current(self, id_: Id, session: int) -> Id:
        """Returns the id that a recorded request of a session has now."""
        return self._by_recorded.get((session, id_), id_)

    def recorded(self, id_: Id) -> Id:
        """Returns the recorded id of the request that has an id now."""
        return self._recorded.get(id_, id_)

    def translated(self, raw: bytes, session: int, open_calls: OpenCalls) -> bytes:
        """Returns a message of the client with new ids in place of those that another session is using."""
        changes: dict[bytes, bytes] = {}
        for message in client_messages_in(raw) if len(open_calls) or self._by_recorded else ():
            if isinstance(message, Request):
                self._by_recorded.pop((session, message.id), None)
                if open_calls.is_used_elsewhere(message.id, session) and len(self._by_recorded) < _MAX_IDS:
                    self._count += 1
                    new = f"replay-{self._count}"
                    self._by_recorded[session, message.id] = id_of(new)
                    self._recorded[id_of(new)] = message.id
                    changes[message.id.text.encode("utf-8", "replace")] = json.dumps(new).encode()
            elif (params := getattr(message, "params", None)) and isinstance(params, dict):
                id_ = id_of(params.get("requestId"))
                new_id = self.current(id_, session)
                if new_id != id_:
                    changes[id_.text.encode("utf-8", "replace")] = new_id.text.encode()
        own = {canonical_token(old): new for old, new in changes.items()}
        return translated(raw, Substitutes({}, {}, own, own)) if own else raw
