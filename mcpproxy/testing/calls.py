"""The calls of a capture as tests see them: each with its arguments and result, and figures over several."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, overload

from analysis.conversation.call import Call, Outcome
from analysis.conversation.durations import quantile
from analysis.facts import texts_in
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import duration

__tracebackhide__: Final = True  # pytest shows the line of the test instead
_NS_PER_MS: Final = 1_000_000
_MAX_LISTED_CALLS: Final = 20
"""The maximum number of calls that the text of `Calls` lists."""


class RecordedCall:
    """One request with what became of it. Text and values are those of the traffic, unchanged."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call = call
        """The call as `analysis.calls` yields it, with everything that is known about it."""

    @property
    def method(self) -> str:
        """The method, such as `tools/call`."""
        return self.call.request.method

    @property
    def name(self) -> str | None:
        """The tool, prompt or resource URI that the request names; None if it names none."""
        return self.call.name

    @property
    def params(self) -> Any:
        """The params of the request; None if it has none."""
        return self.call.request.params or None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a tool or prompt; empty if the request has none."""
        params = self.params
        arguments = params.get("arguments") if isinstance(params, dict) else None
        return arguments if isinstance(arguments, dict) else {}

    @property
    def result(self) -> Any:
        """The result; None if there is none, because the call failed or was not answered."""
        response = self.call.response
        return None if response is None else response.result or None

    @property
    def error(self) -> Any:
        """The JSON-RPC error, usually an object with `code` and `message`; None if there is none."""
        response = self.call.response
        return None if response is None else response.error or None

    @property
    def text(self) -> str:
        """The texts in the content of a tool's result, joined by line feeds; empty if there are none."""
        return "\n".join(texts_in(self.result))

    @property
    def latency_ms(self) -> float | None:
        """How long the response took, in milliseconds; None without a response, and if its time is not exact.

        In cassettes, and often in imported captures, times are not exact.
        """
        latency_ns = _latency_ns(self.call)
        return None if latency_ns is None else latency_ns / _NS_PER_MS

    @property
    def outcome(self) -> Outcome:
        """What became of the request. It compares equal to its word: `call.outcome == "result"`."""
        return self.call.outcome

    @property
    def is_error(self) -> bool:
        """Whether the call counts as an error: a JSON-RPC error, a tool that failed, or a failed HTTP exchange."""
        return self.call.is_error

    @property
    def session(self) -> int:
        """The number of the session, from 1."""
        return 0 if self.call.session is None else self.call.session.number

    @property
    def frame(self) -> int:
        """The number of the request's frame, by which `mcpproxy show --frame` prints it."""
        return self.call.request.seq

    def __eq__(self, other: object) -> bool:
        """Whether it is the same call of the same reading."""
        return isinstance(other, RecordedCall) and self.call is other.call

    def __hash__(self) -> int:
        return hash(self.call)

    def __repr__(self) -> str:
        """Returns one line: frame, method, name, outcome and latency; safe to print."""
        subject = sanitise(" ".join(filter(None, (self.method, self.name))), 200)
        return f"<frame {self.frame}: {subject}: {_took_text(self.call)}>"


class Calls(Sequence[RecordedCall]):
    """Calls in the order of their requests."""

    def __init__(self, calls: Iterable[RecordedCall], subject: str = "") -> None:
        """Hold some calls.

        Args:
            calls: the calls.
            subject: what was asked for, for messages. Untrusted text.
        """
        self._calls = tuple(calls)
        self._subject = sanitise(subject, 200)

    @overload
    def __getitem__(self, index: int) -> RecordedCall: ...
    @overload
    def __getitem__(self, index: slice) -> "Calls": ...
    def __getitem__(self, index: int | slice) -> "RecordedCall | Calls":
        """Return a call, or some of them."""
        if isinstance(index, slice):
            return Calls(self._calls[index], self._subject)
        try:
            return self._calls[index]
        except IndexError:
            raise IndexError(f"there are {count_text(len(self), 'call')}{self._of_subject}") from None

    def __len__(self) -> int:
        return len(self._calls)

    def __eq__(self, other: object) -> bool:
        """Whether another sequence has the same calls: `calls.errors == []`."""
        return isinstance(other, Calls | list | tuple) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment] # equal to lists, which have none

    @property
    def p50_ms(self) -> float:
        """The median of the latencies, in milliseconds.

        It is that of `mcpproxy stats`: late and unanswered calls do not count.

        Raises:
            AssertionError: no call has a latency.
        """
        return self._quantile_ms(0.5)

    @property
    def p95_ms(self) -> float:
        """The 95th percentile of the latencies, in milliseconds, counted as for `p50_ms`.

        Raises:
            AssertionError: no call has a latency.
        """
        return self._quantile_ms(0.95)

    @property
    def max_ms(self) -> float:
        """The longest latency, in milliseconds, counted as for `p50_ms`.

        Raises:
            AssertionError: no call has a latency.
        """
        return self._quantile_ms(1)

    def _quantile_ms(self, part: float) -> float:
        latencies_ns = sorted(
            latency_ns for call in self if call.call.is_timely and (latency_ns := call.call.latency_ns) is not None
        )
        if not latencies_ns:
            calls_text = f"{count_text(len(self), 'call')}{self._of_subject}"
            raise AssertionError(f"no latency: there are {calls_text}, and none has a response whose time counts")
        return quantile(len(latencies_ns), latencies_ns.__getitem__, part) / _NS_PER_MS

    @property
    def errors(self) -> "Calls":
        """The calls that count as errors."""
        return Calls((call for call in self if call.is_error), f"{self._subject} that failed".strip())

    @property
    def outcomes(self) -> Counter[str]:
        """How many calls had each outcome: `calls.outcomes == {"result": 3}`."""
        return Counter(str(call.outcome) for call in self)

    @property
    def _of_subject(self) -> str:
        return f" of {self._subject}" if self._subject else ""

    def __repr__(self) -> str:
        """Returns one line, safe to print: outcome and latency of each call, at most some."""
        parts = [_took_text(call.call) for call in self._calls[:_MAX_LISTED_CALLS]]
        if len(self) > _MAX_LISTED_CALLS:
            parts.append(f"… {len(self) - _MAX_LISTED_CALLS:,} more")
        calls_text = f"{count_text(len(self), 'call')}{self._of_subject}"
        return f"<{calls_text}: {', '.join(parts)}>" if parts else f"<{calls_text}>"


def _latency_ns(call: Call) -> int | None:
    return call.latency_ns if call.has_exact_times else None


def _took_text(call: Call) -> str:
    latency_ns = _latency_ns(call)
    return f"{call.outcome}{'' if latency_ns is None else f' in {duration(latency_ns)}'}"
