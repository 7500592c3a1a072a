"""A real nginx in front of servers, with the files that it needs in a folder of the test's."""

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness import DEADLINE_S, wait_until

CONFIGURATION = """
daemon off;
master_process off;
pid {root}/nginx.pid;
error_log {root}/error.log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {root}/body;
    proxy_temp_path {root}/proxy;
    fastcgi_temp_path {root}/fastcgi;
    uwsgi_temp_path {root}/uwsgi;
    scgi_temp_path {root}/scgi;
{servers}
}}
"""


@contextmanager
def nginx(root: Path, servers: str, *ports: int) -> Iterator[None]:
    """Run nginx while the block lasts.

    Args:
        root: a folder for its files.
        servers: what its configuration has in the block `http`.
        ports: the loopback ports on which it then listens; the block begins once it does.
    """
    configuration = root / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(root=root, servers=servers))
    process = subprocess.Popen(
        ["nginx", "-e", str(root / "error.log"), "-p", str(root), "-c", str(configuration)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:

        def accepts(port: int) -> bool:
            assert process.poll() is None, process.stderr and process.stderr.read()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_until(lambda: all(map(accepts, ports)), "nginx to listen")
        yield
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(DEADLINE_S)
        assert process.stderr is not None
        process.stderr.close()
