"""Which redirects the official SDKs follow; mcpproxy follows the same when it probes a server in their place."""

from mcpproxy.clients.probe import next_url

URL = "http://up.example/mcp"
SAME = "http://up.example/mcp/"


def test_a_post_is_repeated_within_the_origin_if_it_stays_a_post() -> None:
    for status, location, target in (
        (307, SAME, SAME),
        (308, "/mcp/", SAME),
        (308, "mcp/?a=b", SAME + "?a=b"),
        (307, "//up.example/mcp/", SAME),
        (307, "http://UP.example:80/mcp/", "http://UP.example:80/mcp/"),
        (301, SAME, None),
        (302, SAME, None),
        (303, SAME, None),
        (304, SAME, None),
        (200, SAME, None),
        (307, "", None),
        (307, "https://up.example/mcp/", None),
        (307, "http://up.example:8080/mcp/", None),
        (307, "http://other.example/mcp/", None),
        (307, "//other.example/mcp/", None),
        (307, "http://user@up.example/mcp/", None),
        (307, "http://[broken", None),
        (307, "http://up.example:port/", None),
        (307, "file:///etc/passwd", None),
    ):
        assert next_url(URL, "POST", status, location) == target, (status, location)


def test_a_get_stays_one() -> None:
    assert [next_url(URL, "GET", status, SAME) for status in (301, 302, 303, 307, 308)] == [SAME] * 5
    assert next_url(URL, "GET", 302, "http://other.example/") is None
