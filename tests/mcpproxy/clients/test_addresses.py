"""The shown part of a URL holds no secret, and NO_PROXY is interpreted as clients do."""

from mcpproxy.clients.addresses import authority, host, loopback_proxy, origin_shown

URLS = {
    "https://example.com/mcp?key=hunter2": ("example.com", "example.com"),
    "https://me:hunter2@example.com:8443/mcp": ("example.com:8443", "example.com"),
    "http://127.0.0.1:80?token=hunter2": ("127.0.0.1:80", "127.0.0.1"),
    "http://hunter2@[::1]:80/mcp": ("[::1]:80", "::1"),
    "http://[::1]": ("[::1]", "::1"),
    "hunter2": ("", ""),
}


def test_nothing_but_host_and_port_is_shown() -> None:
    for url, (place, name) in URLS.items():
        assert (authority(url), host(url)) == (place, name), url
        assert "hunter2" not in origin_shown(url), url
    assert origin_shown("https://example.com/x") == "https://example.com"


def test_which_variable_leads_this_machine_to_a_proxy() -> None:
    proxied = {"http_proxy": "http://proxy.example:3128"}
    for name in ("127.0.0.1", "localhost", "::1"):
        assert loopback_proxy(name, {}) == ""
        assert loopback_proxy(name, proxied) == "http_proxy"
        assert loopback_proxy(name, proxied | {"NO_PROXY": "example.com"}) == "http_proxy"
        for kept in ("*", name, f"[{name}]", "example.com, 127.0.0.1"):
            assert loopback_proxy(name, proxied | {"no_proxy": kept}) == "", kept
    assert loopback_proxy("example.com", proxied) == ""
