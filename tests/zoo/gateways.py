"""Drive small servers through real gateways, directly and with the recorder in front of the gateway, and compare.

    python -m tests.zoo.gateways [--server NAME]... [--gateway NAME]... [--client NAME]... [--keep DIR]

Needs nginx and haproxy, which no registry has. A server is one of `SERVERS`, a gateway one of `GATEWAYS`, and a client
is an official SDK. Prints a line for each combination: whether the client received the same, and the findings of
`check` except notes, with the side that they blame. Findings are not judged here: a gateway that times out should be
reported. But changes that must not matter (tests.analysis.transformations) must not change which side is blamed for
what.
Exit code: 0, or 1 if a client saw a difference, if a change changed something, or if nothing could be run.
"""

import argparse
import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness import DEADLINE_S, Place
from tests.http_harness import free_port, serving
from tests.zoo.alone import leave_the_network
from tests.zoo.findings import Finding, checked
from tests.zoo.install import Unavailable, installed, node
from tests.zoo.rows import HERE, Animal, filled
from tests.zoo.transformations import judged_otherwise
from tests.zoo.visit import START_S, WillNotStart, places_of

AT_ONCE = 2
CLIENT_S = 90.0
"""How long a client may take."""
BRIEF_S = 2
"""The timeout of the gateways that time out; the slow tool takes twice as long."""
BROTLI = Path("/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so")

_SDK_1 = (
    "@modelcontextprotocol/sdk@1.32.2",
    "zod@4.6.7",
    "express@5.3.0",
    "fastify@5.12.8",
    "hono@4.13.19",
    "@hono/node-server@2.1.9",
)
_SDK_2 = ("@modelcontextprotocol/server@2.4.0", "@modelcontextprotocol/node@2.1.2", "zod@4.6.7")


def _python(name: str, packages: tuple[str, ...], *command: str) -> Animal:
    program, *rest = command
    line = ("{python}", "{programs}/" + program, *rest, "{port}")
    return Animal(name, "pypi", packages, line, transport="http", path="/mcp")


def _node(name: str, packages: tuple[str, ...], *command: str) -> Animal:
    program, *rest = command
    return Animal(
        name, "npm", packages, ("{node}", "{programs}/" + program, *rest, "{port}"), transport="http", path="/mcp"
    )


SERVERS = (
    _python("py-2-stream", ("mcp==2.3.0",), "gateway_sdk.py", "stream"),
    _python("py-2-json", ("mcp==2.3.0",), "gateway_sdk.py", "json"),
    _python("py-2-stateless", ("mcp==2.3.0",), "gateway_sdk.py", "stateless"),
    _python("py-1-stateless-json", ("mcp==1.30.0",), "gateway_sdk.py", "stateless-json"),
    _python("fastapi", ("fastapi==0.165.0", "uvicorn==0.54.0"), "gateway_fastapi.py"),
    _python("aiohttp", ("aiohttp==3.14.5",), "gateway_aiohttp.py"),
    _node("ts-1-express", _SDK_1, "gateway_sdk_1.mjs", "express"),
    _node("ts-1-hono", _SDK_1, "gateway_sdk_1.mjs", "hono"),
    _node("ts-1-fastify-json", _SDK_1, "gateway_sdk_1.mjs", "fastify"),
    _node("ts-2-node", _SDK_2, "gateway_sdk_2.mjs"),
)

_PASS = "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $host:$server_port;"
_TYPES = "application/json text/event-stream"
NGINX = {
    "nginx": "",
    "nginx-unbuffered": "proxy_buffering off;",
    "nginx-gzip": f"gzip on; gzip_proxied any; gzip_min_length 0; gzip_types {_TYPES};",
    "nginx-brotli": f"brotli on; brotli_min_length 0; brotli_types {_TYPES};",
    "nginx-brief": f"proxy_read_timeout {BRIEF_S}s;",
    "nginx-redirect": "",
    "nginx-restart": "proxy_buffering off;",
}
"""Name → the directives that are specific to it."""
HAPROXY = {"haproxy": "1h", "haproxy-brief": f"{BRIEF_S}s"}
"""Name → `timeout server`."""
GATEWAYS = (*NGINX, *HAPROXY)
CLIENTS = ("py-legacy", "py-auto", "ts-1")


def missing() -> list[str]:
    """The programs that this machine lacks."""
    return [name for name in ("nginx", "haproxy") if shutil.which(name) is None]


def nginx_config(ports: dict[str, int], upstream: int) -> str:
    """A configuration with one nginx server for each nginx gateway."""
    load = f"load_module {BROTLI};" if BROTLI.exists() else ""
    temporary = "".join(f"{kind}_temp_path {kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    blocks = []
    for name, port in ports.items():
        to = f"proxy_pass http://127.0.0.1:{upstream}"
        where = f"location / {{ {to}; {_PASS} {NGINX[name]} }}"
        if name == "nginx-redirect":
            where = f"location = /mcp {{ return 307 /mcp/; }} location /mcp/ {{ {to}/mcp; {_PASS} }}"
        blocks.append(f"server {{ listen 127.0.0.1:{port}; {where} }}")
    return (
        f"{load} daemon off; master_process off; pid nginx.pid; error_log nginx.log; events {{}}\n"
        f"http {{ access_log off; {temporary}\n" + "\n".join(blocks) + "\n}\n"
    )


def haproxy_config(ports: dict[str, int], upstream: int) -> str:
    """A configuration with one haproxy proxy for each haproxy gateway."""
    return "".join(
        f"listen {name}\n  mode http\n  bind 127.0.0.1:{port}\n  timeout connect 5s\n  timeout client 1h\n"
        f"  timeout server {HAPROXY[name]}\n  server one 127.0.0.1:{upstream}\n"
        for name, port in ports.items()
    )


def wait_to_listen(process: "subprocess.Popen[bytes]", port: int, stderr: Path) -> None:
    """Wait until a started program listens.

    Raises:
        WillNotStart: it exited, or took too long.
    """
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise WillNotStart(f"it does not listen: {stderr.read_text(errors='replace')[-300:]!r}")


class Server:
    """A server that listens on one port and can be restarted there."""

    def __init__(self, animal: Animal, root: Path) -> None:
        self._animal, self._root = animal, root
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens.

        Raises:
            WillNotStart: it does not listen.
        """
        work = self._root / "work"
        work.mkdir(parents=True, exist_ok=True)
        command = filled(self._animal.command, places_of(self._animal, work, self.port))
        with (self._root / "stderr").open("ab") as stderr:
            self._process = subprocess.Popen(command, cwd=work, stdout=stderr, stderr=stderr, stdin=subprocess.DEVNULL)
        wait_to_listen(self._process, self.port, self._root / "stderr")

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def running(command: Sequence[str], root: Path, port: int) -> Iterator[None]:
    """Run a gateway while the block runs."""
    with (root / "stderr").open("ab") as stderr:
        process = subprocess.Popen(command, cwd=root, stdout=stderr, stderr=stderr, stdin=subprocess.DEVNULL)
    try:
        wait_to_listen(process, port, root / "stderr")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def gateways(root: Path, upstream: int) -> Iterator[dict[str, int]]:
    """Run all gateways in front of one server; yields name → port."""
    ports = {name: free_port() for name in GATEWAYS if name != "nginx-brotli" or BROTLI.exists()}
    of_nginx = {name: port for name, port in ports.items() if name in NGINX}
    of_haproxy = {name: port for name, port in ports.items() if name in HAPROXY}
    (root / "nginx.conf").write_text(nginx_config(of_nginx, upstream))
    (root / "haproxy.cfg").write_text(haproxy_config(of_haproxy, upstream))
    nginx = ["nginx", "-p", f"{root}/", "-e", "nginx.log", "-c", "nginx.conf"]
    with (
        running(nginx, root, of_nginx["nginx"]),
        running(["haproxy", "-q", "-db", "-f", "haproxy.cfg"], root, of_haproxy["haproxy"]),
    ):
        yield ports


def client_command(client: str, address: str, restarted: Server | None) -> list[str]:
    """The command that starts a client."""
    wait = ["wait"] if restarted is not None else []
    if client == "ts-1":
        return [str(node()), str(installed("npm", _SDK_1) / "programs/gateway_client.mjs"), address, *wait]
    return [sys.executable, str(HERE / "programs/gateway_client.py"), address, client.partition("-")[2], *wait]


def run_client(command: Sequence[str], environment: dict[str, str], restarted: Server | None) -> list[str]:
    """Run a client; returns what it saw, a line for each step, without what differs between any two runs.

    Args:
        command: the command that starts the client.
        environment: the client's environment.
        restarted: a server to kill in the middle of the slow call, then restart.
    """
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    watch = threading.Timer(CLIENT_S, process.kill)
    watch.start()
    saw = []
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            step, what = json.loads(line)
            if step != "begin":
                saw.append(re.sub(r"127\.0\.0\.1:\d+", "HOST", f"{step}: {json.dumps(what)}"))
            elif what == "slow" and restarted is not None:
                time.sleep(1)
                restarted.kill()
                time.sleep(0.5)
                restarted.start()
                with contextlib.suppress(BrokenPipeError):
                    print("it is back", file=process.stdin, flush=True)
        status = process.wait()
    finally:
        watch.cancel()
        process.kill()
        process.wait()
    return saw + ([f"exit code {status}"] if status else [])


@dataclass
class Outcome:
    """The result for one combination."""

    name: str
    direct: list[str] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    otherwise: list[str] = field(default_factory=list)
    """What is reported differently if the conversation is changed in ways that must not matter."""

    @property
    def is_same(self) -> bool:
        """Whether the client saw the same in both runs."""
        return self.direct == self.recorded

    def __str__(self) -> str:
        told = Counter((finding.level, finding.rule, finding.blames) for finding in self.findings)
        words = [
            f"{level} {rule} ({blames})" + (f" ×{count}" if count > 1 else "")
            for (level, rule, blames), count in sorted(told.items())
            if level != "note"
        ]
        return f"{self.name:48}{'same' if self.is_same else 'DIFFERENT':11}{'; '.join(words) or '-'}"


def combine(name: str, client: str, port: int, root: Path, restarted: Server | None) -> Outcome:
    """Run one combination, directly and recorded."""
    outcome = Outcome(name)
    root.mkdir(parents=True)
    place = Place(root)
    place.environment["PYTHONPATH"] = str(HERE.parents[1])
    address = f"http://127.0.0.1:{port}/mcp"
    outcome.direct = run_client(client_command(client, address, restarted), place.environment, restarted)
    with serving(place, address, stdin=subprocess.PIPE) as recorder:
        outcome.recorded = run_client(client_command(client, recorder.url, restarted), place.environment, restarted)
    try:
        outcome.findings = checked(place, recorder.capture)
        outcome.otherwise = judged_otherwise(recorder.capture)
    except AssertionError as why:
        outcome.recorded.append(f"check: {why}")
    recorder.capture.rename(root / "recorded.mcpcap")
    for way in ("direct", "recorded"):
        (root / f"{way}.txt").write_text("\n".join(getattr(outcome, way)) + "\n")
    return outcome


def visit(animal: Animal, options: argparse.Namespace, root: Path) -> Iterator[Outcome]:
    """Run one server through all gateways; those that restart it come last, one at a time."""
    root.mkdir(parents=True)
    server = Server(animal, root)
    is_modern = "-2-" in animal.name
    clients = [client for client in options.client or CLIENTS if client != "py-auto" or is_modern]
    try:
        server.start()
        with gateways(root, server.port) as ports, ThreadPoolExecutor(AT_ONCE) as pool:
            asked = [(name, client) for name in ports if name in (options.gateway or GATEWAYS) for client in clients]

            def one(wanted: tuple[str, str]) -> Outcome:
                name, client = wanted
                restarted = server if name.endswith("restart") else None
                full = f"{animal.name}, {name}, {client}"
                return combine(full, client, ports[name], root / f"{name}+{client}", restarted)

            yield from pool.map(one, [pair for pair in asked if not pair[0].endswith("restart")])
            yield from map(one, [pair for pair in asked if pair[0].endswith("restart")])
    finally:
        server.kill()


def main() -> int:
    """Run every combination and print the results."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.zoo.gateways", description=__doc__.partition("\n")[0] if __doc__ else None
    )
    parser.add_argument("--server", action="append", choices=[animal.name for animal in SERVERS])
    parser.add_argument("--gateway", action="append", choices=GATEWAYS)
    parser.add_argument("--client", action="append", choices=CLIENTS)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep captures, and what clients saw, in a new DIR")
    options = parser.parse_args()
    if lacking := missing():
        print(f"not run: {' and '.join(lacking)} must be installed")
        return 1
    animals = [animal for animal in SERVERS if animal.name in (options.server or [animal.name])]
    try:
        node()
        installed("npm", _SDK_1)
        for animal in animals:
            installed(animal.registry, animal.packages)
    except Unavailable as why:
        print(f"not run: {why}")
        return 1
    if why_not := leave_the_network():
        print(f"warning: what is started can reach the network: {why_not}")
    if not BROTLI.exists():
        print("not run: nginx-brotli: nginx has no such module")
    different = otherwise = 0
    with tempfile.TemporaryDirectory() as temporary:
        for animal in animals:
            try:
                for outcome in visit(animal, options, (options.keep or Path(temporary)) / animal.name):
                    print(outcome, flush=True)
                    if not outcome.is_same:
                        different += 1
                        print(f"  direct    {outcome.direct}\n  recorded  {outcome.recorded}")
                    otherwise += bool(outcome.otherwise)
                    for what in outcome.otherwise:
                        print(f"  {what}")
            except WillNotStart as why:
                print(f"not run: {animal.name}: {why}")
    print(f"{different} combinations differ, {otherwise} conversations are judged otherwise when changed")
    return 1 if different or otherwise else 0


if __name__ == "__main__":
    sys.exit(main())
