"""Relays HTTP to one server: forwards bytes as they arrive, and shows a copy to an observer.

Promises: each client connection has its own connection to the upstream, so what one side does to its connection
(half-closing, resetting, reading slowly) happens to the other side. Nothing is retried, followed, cached or
decompressed, no idle stream times out, and a head does not wait for its body. Requests are forwarded as `wire.http1`
passes them; the upstream sees nothing of what it or the admission rule refuses. Responses of our own are marked as ours
and are never JSON-RPC.

`listener` accepts the connections of clients. `client_connection` and `upstream_connection` are the two that it joins,
and `side` is what they share: a long read is forwarded in portions, in turn with those of other connections
(`round_robin`). The observer (`observer`, `observer_calls`) sees each portion. If it falls behind, as it may with a
compressed body, nothing more is read from that client until it has caught up.
"""
