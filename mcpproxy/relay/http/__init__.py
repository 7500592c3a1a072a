"""Relays HTTP to one server: forwards bytes as they arrive, and shows a copy to an observer.

Promises: each client connection has its own connection to the upstream, so half-closes, resets and slow reads on one
side are passed on to the other side. The relay does not retry, follow redirects, cache or decompress, no idle stream
times out, and a head does not wait for its body. Requests are forwarded as `wire.http1` passes them. The upstream never
sees a request that `wire.http1` or the admission rule refuses. Responses of mcpproxy itself are marked as such, and are
never JSON-RPC.

`listener` accepts the connections of clients. `client_connection` and `upstream_connection` are the two connections
that the relay joins, and `side` is their common base: a long read is forwarded in portions, in turn with those of other
connections (`round_robin`). The observer (`observer`, `observer_calls`) sees each portion. If the observer falls
behind, for example on a compressed body, nothing more is read from that connection until it has caught up.
"""
