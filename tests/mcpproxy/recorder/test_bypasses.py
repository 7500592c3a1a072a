"""In front of a public server: which addresses lead clients around the recorder, and how often that is told."""

import pytest

from mcpproxy.recorder.bypasses import BypassDetector
from mcpproxy.relay.http.rewrite import Origin


class Told:
    """A detector for a public URL, and what it tells."""

    def __init__(self, host: str = "mcp.example.org", port: int | None = None) -> None:
        origin = Origin("https", host, port)
        self.lines: list[str] = []
        self.detector = BypassDetector(
            self.lines.append,
            f"https://{host}{f':{port}' if port else ''}",
            lambda address: origin.relative_address(address.encode()) is not None,
            is_public=True,
            rewrites_addresses=False,
        )

    def leads_to(self, flag: str, address: str) -> str | None:
        bypass = self.detector.in_address(flag, address, "mcp.example.org")
        if bypass is not None:
            self.detector.report(bypass)
        return bypass and bypass.detail


@pytest.mark.parametrize("flag", ["bypass/challenge", "bypass/resource", "bypass/location", "bypass/issuer"])
def test_http_in_place_of_https_is_another_address(flag: str) -> None:
    told = Told()
    assert told.leads_to(flag, "http://mcp.example.org/mcp") == "http://mcp.example.org"
    assert told.leads_to(flag, "https://MCP.example.org:443/mcp") is None
    assert told.leads_to(flag, "/mcp") is None
    assert told.leads_to(flag, "//mcp.example.org/mcp") is None
    (line,) = told.lines
    assert "http://mcp.example.org" in line
    assert f"({flag})" in line


def test_another_port_is_another_address_of_a_resource() -> None:
    told = Told(port=8443)
    assert told.leads_to("bypass/resource", "https://mcp.example.org/mcp") == "https://mcp.example.org"
    assert told.leads_to("bypass/resource", "https://mcp.example.org:8443/mcp") is None


def test_an_authorization_server_may_be_another_one_but_not_on_loopback_or_by_http() -> None:
    told = Told()
    for fine in ("https://login.example", "https://mcp.example.org:9443", "https://mcp.example.org/tenant", "[", ""):
        assert told.leads_to("bypass/issuer", fine) is None
    for address in ("http://localhost:18080/", "https://127.0.0.1", "http://[::1]:9", "http://mcp.example.org:8000/"):
        assert told.leads_to("bypass/issuer", address) == address.removesuffix("/")


def test_on_loopback_nothing_is_told_of_loopback() -> None:
    told = Told("localhost", 8443)
    assert told.leads_to("bypass/issuer", "https://127.0.0.1:9000") is None


def test_each_cause_is_told_once() -> None:
    told = Told()
    told.leads_to("bypass/challenge", "http://mcp.example.org/.well-known/oauth-protected-resource/mcp")
    told.leads_to("bypass/resource", "http://mcp.example.org/mcp")
    told.leads_to("bypass/issuer", "http://mcp.example.org")
    assert len(told.lines) == 1
    told.leads_to("bypass/resource", "http://localhost:8000/mcp")
    told.leads_to("bypass/issuer", "http://127.0.0.1:8000")
    assert len(told.lines) == 2
    for number in range(3):  # other hosts may come from the Host of anybody's request
        told.leads_to("bypass/resource", f"https://{number}.example")
        told.leads_to("bypass/challenge", f"https://{number}.example")
    assert [line.partition(" (")[2].partition(")")[0] for line in told.lines] == [
        "bypass/challenge",
        "bypass/resource",
        "bypass/resource",
        "bypass/challenge",
    ]
