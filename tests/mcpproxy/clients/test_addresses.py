"""The shown part of a URL holds no secret, and NO_PROXY is interpreted as clients do."""

from mcpproxy.clients.addresses import authority, display_origin, host, loopback_proxy_variable

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
        assert "hunter2" not in display_origin(url), url
    assert display_origin("https://example.com/x") == "https://example.com"


def test_which_variable_leads_this_machine_to_a_proxy() -> None:
    proxied = {"http_proxy": "http://proxy.example:3128"}
    for name in ("127.0.0.1", "localhost", "::1"):
        assert loopback_proxy_variable(name, {}) == ""
        assert loopback_proxy_variable(name, proxied) == "http_proxy"
        assert loopback_proxy_variable(name, proxied | {"NO_PROXY": "example.com"}) == "http_proxy"
        for kept in ("*", name, f"[{name}]", "example.com, 127.0.0.1"):
            assert loopback_proxy_variable(name, proxied | {"no_proxy": kept}) == "", kept
    assert loopback_proxy_variable("example.com", proxied) == ""
