"""One S3 server for all modules, as starting it takes two seconds of processor time; each test has its own prefix."""

from collections.abc import Iterator

import pytest

from tests.mcpproxy.shipping.s3 import server


@pytest.fixture(scope="session")
def s3() -> Iterator[int]:
    """The port of the server."""
    with server() as port:
        yield port
