"""Replaces servers from npm by their mocks under real clients: their output must be the same.

    python -m tests.playback_proof.hosts [--only WORD] [--keep FOLDER]

The servers and clients are those of the zoo (`tests/zoo/servers.toml` and `clients.toml`), installed as it installs
them. Each client runs twice with the recorded server, then with the mock of the first recording. Output that differs
between the two runs with the server is not compared. It informs, and exits with 0.
"""

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.http_harness import free_port
from tests.playback_proof.equality import compared, reason_of
from tests.zoo.install import bin_of, node, place_of
from tests.zoo.rows import Animal, filled, read
from tests.zoo.visit import prepared

MCPPROXY = Path(sys.executable).with_name("mcpproxy")
WITHIN_S = 90
NAMES = (
    *("everything", "filesystem", "memory", "sequential-thinking", "pdf", "hello-world", "playwright"),
    *("chrome-devtools", "context7", "desktop-commander", "memory-bank", "taskmanager", "cyanheads-git", "eslint"),
    *("ark-ui", "primeng", "ts-sdk-1", "ts-sdk-2", "fastmcp-ts", "tmcp", "litemcp"),
)


class Client(NamedTuple):
    """A way to use a server."""

    name: str
    packages: tuple[str, ...]
    command: tuple[str, ...]
    file: str = ""
    text: str = ""


def clients(call: Mapping[str, Any] | None) -> list[Client]:
    """Returns the clients, with commands that call a tool if the row of the server has a call."""
    (mcporter,) = (animal.packages for animal in read("client") if animal.name == "mcporter")
    (inspector,) = (animal.packages for animal in read("client") if animal.name == "inspector")
    (opencode,) = (animal.packages for animal in read("client") if animal.name == "opencode")
    config = '{"mcpServers": {"zoo": {"command": "{server}"}}, "imports": []}'
    porter = ("{bin}/mcporter", "--config", "{work}/mcporter.json")
    inspect = ("{bin}/mcp-inspector", "--cli")
    found = [
        Client("mcporter list", mcporter, (*porter, "list", "zoo", "--schema"), "mcporter.json", config),
        Client("inspector tools/list", inspector, (*inspect, "--method", "tools/list", "--", "{server}")),
        Client("inspector prompts/list", inspector, (*inspect, "--method", "prompts/list", "--", "{server}")),
        Client("inspector resources/list", inspector, (*inspect, "--method", "resources/list", "--", "{server}")),
        Client(
            "opencode",
            opencode,
            ("{bin}/../opencode-linux-x64/bin/opencode", "mcp", "list"),
            ".config/opencode/opencode.json",
            '{"mcp": {"zoo": {"type": "local", "command": ["{server}"]}}}',
        ),
    ]
    if call is not None:
        arguments = json.dumps(call["arguments"])
        calling = (*porter, "call", f"zoo.{call['name']}", "--args", arguments)
        found.append(Client("mcporter call", mcporter, calling, "mcporter.json", config))
        words = [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in call["arguments"].items()
        ]
        options = [word for pair in words for word in ("--tool-arg", pair)]
        calling = (*inspect, "--method", "tools/call", "--tool-name", call["name"], *options, "--", "{server}")
        found.append(Client("inspector tools/call", inspector, calling))
    return found


def ran(client: Client, animal: Animal, root: Path, server: Sequence[str] | None, captures: Path) -> dict[str, str]:
    """Run a client; returns what it printed. `server` replaces the animal's own command."""
    with prepared(animal, root, free_port()) as (place, command, work):
        captures.mkdir(parents=True, mode=0o700, exist_ok=True)
        record = [str(MCPPROXY), "run", "--name", "zoo", "--capture", f"{captures}/", "--"]
        program = root / "server"
        variables = {name: place.environment[name] for name in (*animal.environment, "PATH")}
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        program.write_text(f"#!/bin/sh\n{exports}exec {shlex.join([*record, *(server or command)])}\n")
        program.chmod(0o755)
        home = place_of("npm", client.packages)
        places = {
            "bin": str(bin_of("npm", home)),
            "node": str(node()),
            "work": str(work),
            "server": str(program),
        }
        if client.file:
            (work / client.file).parent.mkdir(parents=True, exist_ok=True)
            (work / client.file).write_text(filled(client.text, places))
        environment = {**place.environment, "HOME": str(work), "NO_COLOR": "1"}
        del environment["XDG_CONFIG_HOME"]
        try:
            done = subprocess.run(
                filled(client.command, places),
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=WITHIN_S,
                check=False,
            )
            out, errors, status = done.stdout, done.stderr, str(done.returncode)
        except subprocess.TimeoutExpired as late:
            out, errors, status = late.stdout or b"", late.stderr or b"", "killed"
        return {"stdout": out.decode(errors="replace"), "stderr": errors.decode(errors="replace"), "exit": status}


def masked(text: str) -> list[str]:
    """Returns the lines of an output without durations and numbers of processes."""
    return [re.sub(r"\b\d+(\.\d+)?\s?m?s\b|pid \d+", "#", line) for line in text.splitlines()]


def is_different(ours: str, first: str, second: str) -> bool:
    """Whether an output has a line that neither run with the server has, or lacks one that both have."""
    told, one, other = (masked(text) for text in (ours, first, second))
    if len(one) == len(other) == len(told):
        return any(line not in pair for line, *pair in zip(told, one, other, strict=True))
    lines, either, both = Counter(told), Counter(one) | Counter(other), Counter(one) & Counter(other)
    return bool(lines - either or both - lines)


def one(animal: Animal, client: Client, folder: Path) -> str:
    """Run one combination; returns its verdict."""
    place = folder / f"{animal.name}-{client.name.replace(' ', '-').replace('/', '-')}"
    if place.exists():
        shutil.rmtree(place)
    runs = [ran(client, animal, folder / "root", None, place / f"real-{number}") for number in (1, 2)]
    found = sorted((place / "real-1").glob("*.mcpcap"), key=lambda path: -path.stat().st_size)
    if not found:
        return f"not started: {runs[0]['stderr'].strip()[-100:]!r}"
    mock = [str(MCPPROXY), "mock", str(found[0])]
    run = ran(client, animal, folder / "root", mock, place / "mock")
    (place / "told.json").write_text(json.dumps([*runs, run], indent=1))
    differs = [part for part, ours in run.items() if is_different(ours, *(each[part] for each in runs))]
    new = sorted((place / "mock").glob("*.mcpcap"), key=lambda path: -path.stat().st_size)
    reason = (reason_of(compared(found[0], new[0])) or "equal") if new else "no capture"
    size = len(runs[0]["stdout"])
    output = "different: " + ", ".join(differs) if differs else "equal"
    return f"{size:7,} characters, exit {runs[0]['exit']}, {len(found)} starts; captures: {reason}; output: {output}"


def main() -> None:
    """Run all, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp())
    equal = total = 0
    for animal in read("server"):
        if animal.name not in NAMES:
            continue
        for client in clients(animal.call):
            name = f"{animal.name:20} {client.name:24}"
            if not re.search(options.only, name):
                continue
            verdict = one(animal, client, folder)
            total, equal = total + 1, equal + verdict.endswith("output: equal")
            print(name, verdict, flush=True)
    print(f"{equal} of {total} equal")


if __name__ == "__main__":
    main()
