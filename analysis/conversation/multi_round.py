"""Finds chains: calls of several rounds, in which the server answers "input required" and the client retries.

Each round is a separate request with its own id; only the contents of a retry show that it continues an earlier
request. In order of strength, the evidence is

- the `requestState` of the interim result, with the same method and target (`name` or `uri`);
- with the same method and target, a key of its `inputRequests` among the `inputResponses`;
- params that are equal except for these members and `_meta`.

Each interim result has one retry. If a retry fits several interim results, it continues the newest, provided that the
client gave up the older ones before that call began. Calls that ran in parallel and look the same cannot be
distinguished: they are not linked, as a wrong link is worse than none. A plain request never counts as a retry, however
similar it is.

Memory is bounded by the number of interim results that are kept and by the bytes of their frames. Forgotten interim
results are counted.
"""

import json
from collections import OrderedDict
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from analysis.conversation.message import Id, Request, Response, id_of
from analysis.conversation.session import Session
from analysis.facts import size_of
from analysis.protocol.revisions import Era

MAX_CHAINS: Final = 10_000
"""The most interim results and retries under way that are kept; the oldest are forgotten first."""
MAX_TOTAL_CHAIN_BYTES: Final = 8 << 20
"""The most bytes in the frames of these interim results and their requests; a single pair may exceed the limit."""
MAX_ALIKE_CHAINS: Final = 100
"""The most interim results of one session, method and target that wait at the same time."""
MAX_EXAMINED_KEYS: Final = 50
"""The most keys of `inputResponses` that are examined: each is looked up in every candidate."""
MAX_ROUNDS: Final = 1_000
"""The most rounds of a chain that are kept individually."""
MAX_PLACES: Final = 8
"""The most calls of one `requestState` that are distinguished."""

Evidence: TypeAlias = Literal["state", "keys", "params"]
"""How a retry was recognised: by the state that it sends back, by a key that it answers, or by equal params."""

_RETRY_MEMBERS: Final = frozenset({"_meta", "inputResponses", "requestState"})


class Turn(NamedTuple):
    """A request with its response, and the revision and era in force for them."""

    request: Request
    response: Response
    revision: str | None
    era: Era | None


class Round(NamedTuple):
    """One request of a chain."""

    chain: "Chain"
    number: int
    """The number of the round in its chain, from 1."""
    seq: int
    """Number of the frame of the request."""
    requested_ns: int
    """Stamp of the request."""
    client_ns: int | None = None
    """How long the client, or its user, took from the interim result to this request; None for the first round."""
    evidence: Evidence | None = None
    """How the request was recognised as part of the chain; None for the first round."""


class Chain:
    """One call with all its rounds."""

    def __init__(self, number: int, session: Session, request: Request) -> None:
        self.number = number
        """The number of the chain, from 1, in the order in which calls became chains."""
        self.session = session
        self.method = request.method
        self.started_ns = request.t_ns
        """Stamp of the first request."""
        self.rounds: list[Round] = [Round(self, 1, request.seq, request.t_ns)]
        """The first 1,000 rounds, in order."""
        self.round_count = 1
        self.interim_turn: Turn | None = None
        """The last interim result, with its request. It is kept until the response to its retry has come; None if there
        is none or it had to be forgotten."""
        self.is_waiting = False
        """Whether the interim result waits for a retry."""
        self.ended_ns: int | None = None
        """Stamp of the response that ended the chain."""
        self.client_ns = 0
        """How long the client took in all rounds: the part of the duration for which the server was not responsible."""
        self.memory: dict[str, Any] = {}
        """State that rules keep for the chain, by their ids."""
        self.place: tuple[int, str, Id | None] = (session.number, request.method, target_of(request))
        """The session, method and target that a retry must have."""
        self.request_state: Id | None = None
        """The `requestState` of the interim result."""
        self.input_requests: dict[str, Any] = {}
        """The `inputRequests` of the interim result."""
        self._params: bytes | Literal[False] | None = False
        self.size = 0
        """How many bytes are in the frames of the interim result and its request."""

    @property
    def params(self) -> bytes | None:
        """A digest of the params that should be the same in the retry; None if unknown."""
        if self._params is False:
            self._params = None if self.interim_turn is None else fingerprint(self.interim_turn.request.params)
        return self._params

    def add_interim(self, turn: Turn) -> None:
        """Keep an interim result."""
        result: Any = turn.response.result
        state, input_requests = result.get("requestState"), result.get("inputRequests")
        self.interim_turn, self._params = turn, False
        self.request_state = id_of(state) if isinstance(state, str) else None
        self.input_requests = input_requests if isinstance(input_requests, dict) else {}
        self.size = size_of(turn.request.frames) + size_of(turn.response.frames)


class Chains:
    """The chains of a capture."""

    def __init__(self, limit: int = MAX_CHAINS, bytes_limit: int = MAX_TOTAL_CHAIN_BYTES) -> None:
        """Create an empty table of chains.

        Args:
            limit: the most interim results that are kept.
            bytes_limit: the most bytes in their frames.
        """
        self.count = 0
        """The number of chains so far."""
        self.forgotten_count = 0
        """How many interim results and retries under way had to be forgotten: their next rounds are not recognised."""
        self._limit, self._bytes_limit, self._bytes = limit, bytes_limit, 0
        self._kept_chains: OrderedDict[int, Chain] = OrderedDict()
        self.waiting_chains: dict[tuple[int, str, Id | None], list[Chain]] = {}
        """The chains whose interim result waits for a retry; if there are none, no request can be a retry."""
        self.retries: OrderedDict[tuple[int, int | None], Round] = OrderedDict()
        """The retries under way, by frame number and position of their requests."""
        self.states: OrderedDict[Id, set[tuple[int, str, Id | None]]] = OrderedDict()
        """For every `requestState` of an interim result: the sessions, methods and targets that received it; empty if
        there were too many."""
        self.places: OrderedDict[tuple[str, Id | None], None] = OrderedDict()
        """Every method and target that was answered with an interim result."""
        self.has_all = True
        """Whether no state and no target had to be forgotten."""

    def __len__(self) -> int:
        """The number of interim results that are kept."""
        return len(self._kept_chains)

    # ---- events

    def on_request(self, request: Request, session: Session) -> Round | None:
        """Process a client request; return its round if it continues an earlier request, or else None."""
        params = request.params
        if not isinstance(params, dict) or not ("requestState" in params or "inputResponses" in params):
            return None
        candidates = self.waiting_chains.get((session.number, request.method, target_of(request)))
        if not candidates:
            return None
        chain, evidence = _continued_chain(candidates, params)
        if chain is None or chain.interim_turn is None:
            return None
        self._remove_waiting(chain)
        client_ns = max(0, request.t_ns - chain.interim_turn.response.t_ns)
        retry = Round(chain, chain.round_count + 1, request.seq, request.t_ns, client_ns, evidence)
        chain.round_count += 1
        chain.client_ns += client_ns
        chain.is_waiting = False
        if len(chain.rounds) < MAX_ROUNDS:
            chain.rounds.append(retry)
        self.retries[request.seq, request.index] = retry
        if len(self.retries) > self._limit:
            self.retries.popitem(last=False)
            self.forgotten_count += 1
        return retry

    def on_response(self, turn: Turn, session: Session, *, is_interim: bool) -> Round | None:
        """Process the response to a client request; return the round that it ends, or None if it is not in a chain.

        Args:
            turn: the request and its response.
            session: their session.
            is_interim: whether the response is an interim result, after which the chain continues.
        """
        request = turn.request
        round_ = self.retries.pop((request.seq, request.index), None) if self.retries else None
        if round_ is not None:
            self._release(round_.chain)
        elif not is_interim:
            return None
        else:
            self.count += 1
            round_ = Chain(self.count, session, request).rounds[0]
        chain = round_.chain
        if is_interim:
            self._keep(chain, turn)
        else:
            chain.ended_ns = turn.response.t_ns
        return round_

    def on_failed(self, request: Request) -> None:
        """Note that a request can no longer be answered. If it was a retry, the client may send it again."""
        retry = self.retries.pop((request.seq, request.index), None) if self.retries else None
        if retry is None or retry.chain.interim_turn is None:
            return
        chain = retry.chain
        chain.round_count -= 1
        chain.client_ns -= retry.client_ns or 0
        if chain.rounds[-1] is retry:
            chain.rounds.pop()
        self._add_waiting(chain)

    # ---- memory

    def _keep(self, chain: Chain, turn: Turn) -> None:
        """Keep a chain with its interim result."""
        chain.add_interim(turn)
        self._bytes += chain.size
        self._kept_chains[chain.number] = chain
        self._note_place(chain)
        self._add_waiting(chain)
        while len(self._kept_chains) > 1 and (len(self._kept_chains) > self._limit or self._bytes > self._bytes_limit):
            self._forget(next(iter(self._kept_chains.values())))

    def _note_place(self, chain: Chain) -> None:
        """Record the state and the target of an interim result, until the end of the capture."""
        self.places[chain.place[1:]] = None
        if chain.request_state is not None:
            places = self.states.setdefault(chain.request_state, {chain.place})
            if places and chain.place not in places:
                places.add(chain.place)
                if len(places) > MAX_PLACES:
                    places.clear()
        for table in (self.places, self.states):
            if len(table) > self._limit:
                table.popitem(last=False)
                self.has_all = False

    def _add_waiting(self, chain: Chain) -> None:
        chain.is_waiting = True
        chains = self.waiting_chains.setdefault(chain.place, [])
        chains.append(chain)
        if len(chains) > MAX_ALIKE_CHAINS:
            self._forget(chains[0])

    def _forget(self, chain: Chain) -> None:
        self.forgotten_count += 1
        self._release(chain)

    def _release(self, chain: Chain) -> None:
        """Release the interim result of a chain."""
        if self._kept_chains.pop(chain.number, None) is not None:
            self._bytes -= chain.size
        self._remove_waiting(chain)
        chain.interim_turn, chain.input_requests = None, {}

    def _remove_waiting(self, chain: Chain) -> None:
        """Remove a chain that no longer waits for a retry."""
        chains = self.waiting_chains.get(chain.place, [])
        if chain in chains:
            chains.remove(chain)
            if not chains:
                del self.waiting_chains[chain.place]


def _continued_chain(candidates: list[Chain], params: dict[str, Any]) -> tuple[Chain | None, Evidence | None]:
    """Returns the chain that a retry continues, out of those with its method and target, and the evidence."""
    request_state, responses = params.get("requestState"), params.get("inputResponses")
    state = id_of(request_state) if isinstance(request_state, str) else None
    same_state = [] if state is None else [chain for chain in candidates if chain.request_state == state]
    if len(same_state) == 1:
        return same_state[0], "state"
    digest = fingerprint(params)
    keys = set(islice(responses, MAX_EXAMINED_KEYS)) if isinstance(responses, dict) else set()
    if same_state:
        return _intended_chain(same_state, digest, keys), "state"
    matches = [chain for chain in candidates if not chain.input_requests.keys().isdisjoint(keys)]
    if state is None:
        # Prefer a chain for which this is a correct retry to one whose state is missing from the retry.
        matches = [chain for chain in matches if chain.request_state is None] or matches
    else:
        # An unknown state may come from an interim result that is not in the capture.
        matches = [chain for chain in matches if digest is not None and chain.params == digest]
    if matches:
        return _intended_chain(matches, digest, keys), "keys"
    matches = [
        chain
        for chain in candidates
        if digest is not None and chain.params == digest and (chain.request_state is None or state is None)
    ]
    return _intended_chain(matches, digest, set()), "params"


def _intended_chain(candidates: list[Chain], digest: bytes | None, keys: set[str]) -> Chain | None:
    """Returns the intended chain among several, or None if it is ambiguous."""
    if len(candidates) > 1 and digest is not None:
        candidates = [chain for chain in candidates if chain.params == digest] or candidates
    if len(candidates) > 1:
        candidates = [chain for chain in candidates if not chain.input_requests.keys().isdisjoint(keys)] or candidates
    if not candidates:
        return None
    *older, newest = candidates
    if all(_was_given_up(older_chain, newest) for older_chain in older):
        return newest
    return None


def _was_given_up(older: Chain, newer: Chain) -> bool:
    """Whether the newer call began after the older one's interim result: then the client had started over."""
    return older.interim_turn is not None and older.interim_turn.response.seq < newer.rounds[0].seq


def target_of(request: Request) -> Id | None:
    """Returns the target of a request: the `name` or `uri` in its params, or None if there is neither."""
    params = request.params
    if not isinstance(params, dict):
        return None
    for name in ("name", "uri"):
        if name in params:
            return id_of(params[name])
    return None


def fingerprint(params: object) -> bytes | None:
    """Returns a digest of params, or None without params; members that a retry changes are left out."""
    if not isinstance(params, dict):
        return None
    stable_params = {name: value for name, value in params.items() if name not in _RETRY_MEMBERS}
    try:
        text = orjson.dumps(stable_params, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # orjson rejects integers above 64 bits and lone surrogates.
        try:
            text = json.dumps(stable_params, sort_keys=True).encode()
        except (ValueError, RecursionError):
            return None
    return blake2b(text, digest_size=16).digest()
