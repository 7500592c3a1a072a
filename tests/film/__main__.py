"""Makes the film of the documentation anew: `python -m tests.film DIRECTORY`.

It shows how a server is put behind mcpproxy, a session while it is recorded, and the call that hangs. A shell,
`mcpproxy`, a client and a server run as a user would start them, in a home directory of their own.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.film.cast import Cast
from tests.film.moving_picture import screens, svg

SIZE: Final = (100, 28)
NAME: Final = "hung-call"
TITLE: Final = "mcpproxy: install, look at a live session, find the call that hangs"
FILM: Final = Path(__file__).parent
MARK: Final = "$ "


def main(directory: Path) -> None:
    """Record the session, and write the asciicast and the moving picture."""
    with tempfile.TemporaryDirectory(prefix="film") as home:
        server = os.fspath(shutil.copy(FILM / "server.py", Path(home, "notes.py")))
        entry = {"command": sys.executable, "args": ["-P", server]}
        (Path(home) / ".claude.json").write_text(json.dumps({"mcpServers": {"notes": entry}}, indent=2))
        binaries = Path(sys.executable).parent
        environment = {
            "HOME": home,
            "PATH": f"{binaries}:/usr/bin:/bin",
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
            "PS1": MARK,
            "BASH_SILENCE_DEPRECATION_WARNING": "1",
        }
        cast = Cast(["bash", "--noprofile", "--norc", "-i"], environment, Path(home), SIZE)
        cast.wait_for(MARK)
        cast.type("mcpproxy install claude-code")
        cast.press("\r")
        cast.wait_for("status --wait")
        cast.pause(1.5)
        cast.type("mcpproxy tui")
        cast.press("\r")
        cast.wait_for("sessions")
        client = subprocess.Popen(
            [sys.executable, "-P", FILM / "client.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=environment,
        )
        try:
            cast.wait_for("notes")
            cast.pause(1.5)
            cast.press("\r")
            cast.wait_for("sync")
            cast.pause(6.0)
            cast.press("w", 6.0)
            still_s = cast.output[-1][0]
            cast.press("q")
        finally:
            assert client.stdin is not None
            client.stdin.close()
            client.wait()
            cast.end()
    directory.mkdir(parents=True, exist_ok=True)
    cast.write(directory / f"{NAME}.cast", TITLE)
    (directory / f"{NAME}.svg").write_text(svg(screens(cast.output, SIZE), SIZE, TITLE, still_s))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
