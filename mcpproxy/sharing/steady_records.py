"""The members of a cassette's records, without what differs each time that the same conversation is recorded.

Processes, paths, machines, ports, clocks and details of connections are left out. Numbers of exchanges and connections
and the ids of events are numbered again in the order of the cassette. Everything that a message says stays.
"""

import re
from typing import Any, Final

from captures.record import Record
from captures.versions import FORMAT_VERSION

STEP_NS: Final = 1_000_000
"""The time between two records, unless the recorded one is kept."""
LONG_WAIT_NS: Final = 10_000_000_000
"""A wait between messages of this length or longer is kept, rounded to a multiple of it: sessions depend on it."""

_HEADER_MEMBERS: Final = (
    "transport",
    "name",
    "upstream",
    "public",
    "observed_start",
    "imported",
    "verbatim",
    "substitute",
)
_VARYING_FIELDS: Final = frozenset(
    {
        *("age", "baggage", "connection", "content-length", "date", "keep-alive", "server-timing", "traceparent"),
        *("tracestate", "x-correlation-id", "x-request-id", "x-response-time", "x-runtime"),
    }
)
"""Header fields that describe one transfer, not the conversation."""
_LOOPBACK_PORT: Final = re.compile(
    r"(?:(?<![\w.-])|(?<=%2F))(127(?:\.[0-9]{1,3}){3}|localhost|\[::1\])(?:[:-]|%3A)[0-9]{1,5}(?![\w.])"
)
_MAX_DEPTH: Final = 50
_DROPPED: Final = frozenset({"pid", "start", "pids", "crc", "seq", "t_ns"})


def without_ports(text: str) -> str:
    """Returns a text without the ports of addresses of this machine, which the system chooses each time."""
    return _LOOPBACK_PORT.sub(r"\1", text)


class SteadyRecords:
    """Makes the members of one cassette's records, in its order."""

    def __init__(self, *, keeps_times: bool) -> None:
        """Begin a cassette.

        Args:
            keeps_times: whether the recorded times stay.
        """
        self._keeps_times = keeps_times
        self._next_seq = 0
        self._t_ns = 0
        self._recorded_ns = 0
        """The recorded time of the latest message so far."""
        self._has_answer = False
        self._exchanges: dict[int, int] = {}
        self._connections: dict[object, int] = {}
        self._connection_of: dict[int, int] = {}
        self._event_ids: dict[str, str] = {}

    def record(self, record: Record, session: str = "") -> Record:
        """Returns a record as it is in the cassette, with the next number.

        Args:
            record: the record as it was recorded.
            session: for an HTTP exchange, the session id of its request, or the hash of that; empty if it has none.
        """
        values = {name: value for name, value in record.members.items() if name not in _DROPPED}
        self._advance(record)
        match record.rec:
            case "header":
                values = {"rec": "header", "format": FORMAT_VERSION, "capture": "0" * 32, "segment": 1} | {
                    name: self._clean(values[name]) for name in _HEADER_MEMBERS if name in values
                }
            case "frame" | "part" | "exchange" | "stream":
                values = self._traffic(record, values, session)
            case "gap":
                values = self._gap(values)
            case "close":
                values.pop("durable_seq", None)
        self._next_seq += 1
        return Record(self._next_seq - 1, record.rec, self._t_ns, values)

    def _advance(self, record: Record) -> None:
        """Set the stamp of the next record.

        A long wait counts if the message before it is not part of the start: how long a server takes to start depends
        on the machine.
        """
        if self._keeps_times:
            self._t_ns = max(self._t_ns, record.t_ns)
            return
        self._t_ns += STEP_NS if self._next_seq else 0
        if record.rec == "frame" or record.members.get("stage") == "request":
            if self._has_answer and record.t_ns - self._recorded_ns >= LONG_WAIT_NS:
                self._t_ns += round((record.t_ns - self._recorded_ns) / LONG_WAIT_NS) * LONG_WAIT_NS
            self._recorded_ns = max(self._recorded_ns, record.t_ns)
            self._has_answer = self._has_answer or record.members.get("dir") == "s2c"

    def _gap(self, values: dict[str, Any]) -> dict[str, Any]:
        """Returns a gap that accounts for as many numbers as before; where the user left something out, for none."""
        first, last = values.pop("first", None), values.pop("last", None)
        for name in ("from_ns", "to_ns"):
            values.pop(name, None)
        if values.get("reason") == "excerpt":
            return {name: value for name, value in values.items() if name != "lost"}
        if type(first) is int and type(last) is int and 0 <= first <= last:
            values = {"rec": "gap", "first": self._next_seq, "last": self._next_seq + last - first} | values
            self._next_seq += last - first + 1
        return values

    # ---- traffic

    def _traffic(self, record: Record, values: dict[str, Any], session: str) -> dict[str, Any]:
        number, conn = values.get("exchange"), values.get("conn")
        if type(number) is int:
            # A client may use any of its connections: only where no session id says who sends, it means something.
            key = session or ("connection", conn)
            if number not in self._connection_of:
                self._connection_of[number] = self._connections.setdefault(key, len(self._connections) + 1)
            if type(conn) is int:
                values["conn"] = self._connection_of[number]
            values["exchange"] = self._exchanges.setdefault(number, len(self._exchanges) + 1)
        for name in ("event_id", "last_event_id"):
            if isinstance(values.get(name), str):
                values[name] = self._event_id(values[name])
        if record.rec == "frame" and not self._keeps_times:
            values["time_is_exact"] = False
        if record.rec == "exchange":
            return self._exchange(values)
        return values

    def _event_id(self, text: str) -> str:
        return self._event_ids.setdefault(text, f"event-{len(self._event_ids) + 1}") if text else text

    def _exchange(self, values: dict[str, Any]) -> dict[str, Any]:
        cleaned: dict[str, Any] = {}
        for name, value in values.items():
            if name in ("request", "response"):
                cleaned[name] = self._head(value)
            elif name == "peer" and isinstance(value, str):
                cleaned[name] = _host_of(value)
            elif name != "times":
                cleaned[name] = self._clean(value)
            elif self._keeps_times:
                cleaned[name] = value
        return cleaned

    def _head(self, head: Any) -> Any:
        if not isinstance(head, dict) or not isinstance(head.get("headers"), list):
            return self._clean(head)
        fields: list[Any] = []
        for field in head["headers"]:
            name = field[0].lower() if isinstance(field, list) and field and isinstance(field[0], str) else ""
            if name == "last-event-id" and len(field) == 2 and isinstance(field[1], str):
                fields.append([field[0], self._event_id(field[1])])
            elif name not in _VARYING_FIELDS:
                fields.append(self._clean(field))
        return {name: fields if name == "headers" else self._clean(value) for name, value in head.items()}

    def _clean(self, value: Any, depth: int = 0) -> Any:
        """Returns a value without the ports of this machine in its texts."""
        if isinstance(value, str):
            return without_ports(value)
        if depth > _MAX_DEPTH:
            return None
        if isinstance(value, list):
            return [self._clean(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {name: self._clean(item, depth + 1) for name, item in value.items()}
        return value


def _host_of(address: str) -> str:
    """Returns the host of an address `HOST:PORT`."""
    if address.startswith("["):
        return address.partition("]")[0].removeprefix("[")
    return address.rpartition(":")[0] if address.count(":") == 1 else address
