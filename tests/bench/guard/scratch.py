"""A clone of the repository in which the product may be changed, with its own environment; it needs no network.

The packages that are installed come from the environment that runs this, the product and the tests from the clone. Runs
of tests are bounded in time and leave no process behind.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import uuid
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[3]
PRODUCT: Final = ("captures", "analysis", "mcpproxy")
MARK: Final = "GUARD_RUN"
"""The environment variable by which the processes of a run are found at its end."""
GRACE_S: Final = 60.0
"""How long pytest may take to start, in addition to the time for its tests, on a busy machine."""

_FOR_SCREENS: Final = ("textual-snapshot", "syrupy", "anyio", "platformdirs", "xdist", "xdist.looponfail")
"""Plugins of pytest that most tests do not need, and that take half the time of a short run to load."""


class Result(NamedTuple):
    """The result of one test."""

    test: str
    """Its node id, without parameters."""
    failed: str | None
    """The first line of the error; None if it passed or was skipped."""
    processor_s: float


class Run(NamedTuple):
    """The result of one run of pytest."""

    results: Sequence[Result]
    timed_out: bool
    processor_s: float
    output: str

    @property
    def failure(self) -> Result | None:
        """The first test that failed."""
        return next((result for result in self.results if result.failed is not None), None)


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    """Run a git command; returns its output."""
    name = {"GIT_AUTHOR_NAME": "guard", "GIT_COMMITTER_NAME": "guard"}
    email = {"GIT_AUTHOR_EMAIL": "guard@localhost", "GIT_COMMITTER_EMAIL": "guard@localhost"}
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=check, env=os.environ | name | email)
    return done.stdout


def end_on_signals() -> None:
    """Have SIGINT, SIGTERM and SIGHUP exit cleanly, even in a background job, so that started processes are ended."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, lambda number, _frame: sys.exit(128 + number))


class Scratch:
    """A clone at one revision, with an environment that runs it."""

    def __init__(
        self, folder: Path, repository: Path = ROOT, revision: str = "HEAD", product: str | None = None
    ) -> None:
        """Make it, or bring an existing one to the revision.

        Args:
            folder: an absolute path; what the tests expect next to the repository is linked there, too.
            repository: what to clone, with its history.
            revision: of the suite and everything else.
            product: the revision of the product, if it differs.
        """
        self.folder, self.root = folder, folder / "repository"
        commit = git(repository, "rev-parse", f"{revision}^{{commit}}").strip()
        if not self.root.exists():
            folder.mkdir(parents=True, exist_ok=True)
            git(folder, "clone", "--quiet", "--shared", "--no-checkout", str(repository), str(self.root))
        git(self.root, "fetch", "--quiet", str(repository), commit)
        git(self.root, "checkout", "--quiet", "--force", "--detach", commit)
        git(self.root, "clean", "--quiet", "-d", "--force")
        if product is not None:
            other = git(repository, "rev-parse", f"{product}^{{commit}}").strip()
            git(self.root, "rm", "--quiet", "-r", "--cached", *PRODUCT)
            for package in PRODUCT:
                shutil.rmtree(self.root / package)
            git(self.root, "checkout", other, "--", *PRODUCT)
        shared = repository.resolve().parent / "shared"
        if shared.exists() and not (folder / "shared").exists():
            (folder / "shared").symlink_to(shared)
        self.environment = self.root / ".venv"
        self.python = self.environment / "bin/python"
        if not self.python.exists():
            self._make_environment(repository)
        self.site = next((self.environment / "lib").glob("python*/site-packages"))
        (self.site / "zz_guard.pth").unlink(missing_ok=True)
        for name in ("reporting", "traced"):
            shutil.copyfile(Path(__file__).with_name(f"{name}.py"), self.site / f"guard_{name}.py")
        self._stamp = int(time.time())

    def _make_environment(self, repository: Path) -> None:
        venv.create(self.environment, with_pip=False, symlinks=True)
        site = next((self.environment / "lib").glob("python*/site-packages"))
        installed = sysconfig.get_path("purelib")
        (site / "tree.pth").write_text(f"{self.root}\n{installed}\n")
        for script in Path(sysconfig.get_path("scripts")).iterdir():
            made = self.python.parent / script.name
            head, newline, rest = script.read_bytes().partition(b"\n")
            if made.exists():
                continue
            if head.startswith(b"#!") and b"python" in head:
                made.write_bytes(b"#!" + bytes(self.python) + newline + rest)
                made.chmod(0o755)
            else:
                made.symlink_to(script)
        for name in ("readers", "ship-server", "fetched"):
            if (other := repository / ".venv" / name).exists():
                (self.environment / name).symlink_to(other.resolve())

    def write(self, path: str, text: str) -> None:
        """Change a file of the clone, so that bytecode of the old text is not used for the new one."""
        file = self.root / path
        file.write_text(text, "utf-8")
        self._stamp = max(self._stamp + 1, int(time.time()))
        os.utime(file, (self._stamp, self._stamp))
        Path(cache_from_source(str(file))).unlink(missing_ok=True)

    @contextmanager
    def changed(self, texts: dict[str, str]) -> Iterator[None]:
        """Replace files of the clone while the block runs."""
        before = {path: (self.root / path).read_text("utf-8") for path in texts}
        try:
            for path, text in texts.items():
                self.write(path, text)
            yield
        finally:
            for path, text in before.items():
                self.write(path, text)

    def run(
        self,
        tests: Sequence[str],
        *,
        options: Sequence[str] = ("-x",),
        budget_s: float = 1e9,
        test_s: float = 900.0,
        whole_s: float = 3600.0,
    ) -> Run:
        """Run tests; files and folders are tests, too.

        Args:
            tests: node ids, in the order in which to run them.
            options: of pytest.
            budget_s: CPU time after which no further test begins.
            test_s: the time limit of each test.
            whole_s: the time limit of the run.
        """
        mark = uuid.uuid4().hex
        wanted, report, log = (self.folder / name for name in ("wanted.txt", "report", "log.txt"))
        shutil.rmtree(report, ignore_errors=True)
        report.mkdir()
        wanted.write_text("".join(f"{test}\n" for test in tests))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GUARD_"))}
        environment |= {MARK: mark, "GUARD_REPORT": str(report), "GUARD_BUDGET_S": str(budget_s)}
        command = [str(self.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "guard_reporting"]
        if "-n" not in options and all(".py" in test and "/tui/" not in test for test in tests):
            command += [word for plugin in _FOR_SCREENS for word in ("-p", f"no:{plugin}")]
        command += [f"--basetemp={self.folder / 't'}", f"--timeout={test_s}", *options, f"@{wanted}"]
        until = time.monotonic() + whole_s + GRACE_S
        with open(log, "wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                used = self._wait(process, until)
            finally:
                _end(process.pid, mark)
        if used is None:
            used = self._wait(process, time.monotonic() + GRACE_S) or 0.0
            timed_out = True
        else:
            timed_out = False
        printed = log.read_text("utf-8", "replace")
        assert "ERROR: not found" not in printed, printed
        assert "ERROR: file or directory not found" not in printed, printed
        return Run(_results(report), timed_out, used, printed)

    @staticmethod
    def _wait(process: "subprocess.Popen[bytes]", until: float) -> float | None:
        """Wait for a process; returns its and its children's CPU time, or None if it has not ended by `until`."""
        while time.monotonic() < until:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return usage.ru_utime + usage.ru_stime
            time.sleep(0.05)
        return None


def _end(pid: int, mark: str) -> None:
    """End the remaining processes of a run: its group, and all that have its mark."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    wanted = f"{MARK}={mark}".encode()
    for other in os.listdir("/proc"):
        with suppress(OSError):
            if other.isdigit() and wanted in Path(f"/proc/{other}/environ").read_bytes().split(b"\0"):
                os.kill(int(other), signal.SIGKILL)


def _results(report: Path) -> list[Result]:
    rows: list[dict[str, Any]] = [
        json.loads(line) for file in sorted(report.glob("*.jsonl")) for line in file.read_text("utf-8").splitlines()
    ]
    return [Result(row["test"], row["failed"], row["processor_s"]) for row in rows if "test" in row]
