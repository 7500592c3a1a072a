"""Which texts are network addresses, and which only look like them."""

from mcpproxy.sharing.network_addresses import is_address, is_public_address, private_addresses


def found(text: str) -> list[str]:
    return [text[start:end] for start, end in private_addresses(text)]


def test_each_spelling_of_an_ipv6_address_is_found() -> None:
    for address in (
        "2a00:1450:4001:82a::200e",
        "2a00:1450:4001:082a:0000:0000:0000:200e",
        "2A00:1450:4001:82A::200E",
        "fd12:3456:789a:1::1",
        "fe80::5efe:192.168.1.7",
        "fe80:0:0:0:202:b3ff:fe1e:8329",
        "2606:4700::",
        "::ffff:c0a8:107",
    ):
        for text in (
            address,
            f"from {address} to",
            f"[{address}]:8443",
            f"{address}/64",
            f"({address}),",
            f"{address}%eth0",
            f"peer={address};",
            f"{address}: refused",
            f"no route to {address}.",
            f'"{address}"',
            f"http://[{address}]/x",
        ):
            assert found(text) == [address], text


def test_an_embedded_ipv4_address_is_found_by_itself() -> None:
    assert found("::ffff:10.1.2.3 and 64:ff9b::10.1.2.4") == ["10.1.2.3", "10.1.2.4"]


def test_what_only_looks_like_an_ipv6_address_stays() -> None:
    for text in (
        "::1 :: [::]:80 ::ffff:127.0.0.1 2001:db8::1 2001:0db8:85a3::7334",
        "12:34:56 00:00:01.250 01:02:03:04:05:06:07:08",
        "std::string a::b ab::cd::ef face::feed dead::beef::add Ada::Face ::add a2::b x[1::2] [::-1]",
        "00:1a:2b:3c:4d:5e d8:3f:aa:01:bc:44:9e:10:77:62:5c:0b:e4:f1:90:2d",
        "2a00:1450:4001:82a:1:2:3:4:5 2a00::1::2 2a00::12345",
        "p::before { } http://localhost:3000 ff02::1",
    ):
        assert found(text) == [], text


def test_versions_stay_and_addresses_go() -> None:
    for text in (
        "version 1.2.3.4-beta",
        "Version=4.0.0.0, Chrome/120.0.0.0 Safari/537.36",
        '"version": "8.0.0.1"',
        "1.2.3.4-rc1, 1.2.3.4+build5, 1.2.3.4.dev0, sqlite-jdbc-3.45.1.0.jar",
        ">=1.2.3.4 ~=1.2.3.4 release 2.4.0.3, firmware: 2.4.1.17",
        "section 1.2.3.4, § 1.2.3.5, Table 5.6.7.8, OID 2.5.29.17",
    ):
        assert found(text) == [], text
    for text in (
        "10.1.2.3",
        "ip==10.1.2.3",
        "host 10.1.2.3-10",
        "tcp/10.1.2.3",
        "<td>10.1.2.3</td>",
        "node@10.1.2.3",
        "the version at 10.1.2.3",
        "Server: Apache at 10.1.2.3 port 80",
        "ip-10.1.2.3.log",
    ):
        assert found(text) == ["10.1.2.3"], text
    assert found("version 192.168.1.7") == ["192.168.1.7"]


def test_a_host_is_an_address_with_or_without_brackets() -> None:
    assert [is_address(host) for host in ("[::1]", "::1", "10.1.2.3", "a.b", "", "1.2.3")] == [True] * 3 + [False] * 3
    assert [is_public_address(host) for host in ("[::1]", "127.0.0.1", "245.1.2.3", "10.1.2.3", "x")] == [
        *(True, True, True),
        *(False, False),
    ]
