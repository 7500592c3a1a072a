"""`mcpproxy export` to formats of one file: complete or absent, private, and without secrets that the capture lacks."""

import io
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import duckdb
import pytest

from mcpproxy.cli import export
from mcpproxy.cli.diagnostics import run_guarded
from tests.analysis.store.capture_writer import CaptureWriter
from tests.harness import DEADLINE_S, Place, peer, wait_until
from tests.mcpproxy.cli.typed import complaints, mcpproxy, on_terminal
from tests.mcpproxy.exporters.recorded import SECRETS, over_http
from tests.mcpproxy.test_durability_integration import needs_namespaces

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests/corpus/captures"
FILES = ("otlp", "har", "perfetto", "markdown")
TABLES = ("parquet", "csv", "duckdb")


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = Place(tmp_path_factory.mktemp("http"))
    yield over_http(place)
    assert not place.clear()


@pytest.fixture(scope="module")
def stdio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A recorded server that got credentials in its environment and on its command line."""
    place = Place(tmp_path_factory.mktemp("stdio"))
    secret = SECRETS[1].decode()
    environment = {**place.environment, "API_KEY": SECRETS[0].decode()}
    session = place.start(["env", f"TOKEN={secret}", *peer("echo")], environment=environment)
    session.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert session.line()
    session.finish()
    assert session.capture is not None
    yield session.capture
    assert not place.clear()


@pytest.mark.costly("a server is recorded first, and five exports follow")
def test_the_ending_of_the_name_chooses_the_format(http: Path, tmp_path: Path) -> None:
    """Both as an option and as an operand; `test_export.py` has more names."""
    new = tmp_path / "new/d.duckdb"
    for option, out, begins in ((["-o"], tmp_path / "b.HAR", b'{"log":'), ([], tmp_path / "c.md", b"#")):
        done = mcpproxy("export", *option, out, http)
        assert done.returncode == 0, done.stderr
        assert out.read_bytes().startswith(begins)
    done = mcpproxy("export", "-o", new, http)
    assert done.returncode == 0, done.stderr
    assert b"new/d.duckdb\n" in done.stdout
    with duckdb.connect(str(new), read_only=True) as connection:
        assert connection.execute("select count(*) > 0 from latency").fetchall() == [(True,)]
    done = mcpproxy("export", new, http)
    assert (done.returncode, b"--force replaces it" in done.stderr) == (73, True)
    # Folders that look like files: one exists, the other has an unknown ending.
    (tmp_path / "there.d").mkdir()
    for option, out in ((["-o"], tmp_path / "there.d"), ([], tmp_path / "2026.11.20")):
        done = mcpproxy("export", *option, out, http)
        assert done.returncode == 0, done.stderr
        assert (out / "frames").is_dir()


def test_a_name_like_that_of_another_file_needs_a_format(http: Path, tmp_path: Path) -> None:
    for name, named in (("a.csv", ["a.csv"]), ("a.json", ["-o", "a.json"])):
        done = mcpproxy("export", *named, http, cwd=tmp_path)
        assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, b"", [])
        assert complaints(done).startswith(
            f"mcpproxy: {name} looks like the name of a file, but its ending does not determine a format".encode()
        )
    assert mcpproxy("export", "--format", "csv", "a.csv", http, cwd=tmp_path).returncode == 0


def plain(path: Path) -> bytes:
    """Returns the content of a file, decompressed if it is a table."""
    if path.suffix not in (".parquet", ".duckdb"):
        return path.read_bytes()
    with duckdb.connect() as connection:
        if path.suffix == ".parquet":
            return repr(connection.execute("from read_parquet(?)", [str(path)]).fetchall()).encode()
        connection.execute("attach ? as out (read_only)", [str(path)])
        tables = connection.execute("select table_name from duckdb_tables() where database_name = 'out'").fetchall()
        return b"".join(repr(connection.execute(f"from out.{name}").fetchall()).encode() for (name,) in tables)


@pytest.mark.costly("two captures are exported in every format")
def test_no_file_of_any_format_holds_a_credential_that_the_recorder_replaced(
    http: Path, stdio: Path, tmp_path: Path
) -> None:
    captures = (http, stdio)
    held = [mcpproxy("show", "--format", "markdown", capture).stdout for capture in captures]
    for capture in captures:
        recorded = capture.read_bytes()
        assert not [secret for secret in SECRETS if secret in recorded]
    for form in (*TABLES, *FILES):
        out = tmp_path / form
        options = {"otlp": ["--payloads"], "parquet": ["--findings"]}.get(form, [])
        done = mcpproxy("export", "--format", form, *options, "-o", out, *(captures[:1] if form == "har" else captures))
        assert done.returncode == 0, complaints(done)
        files = [path for path in [out, *out.rglob("*")] if path.is_file()]
        assert files
        for text in (done.stdout, done.stderr, *map(plain, files)):
            assert not [secret for secret in SECRETS if secret in text], form
    done = mcpproxy("export", "--format", "har", "-o", tmp_path / "none.har", stdio)
    assert (done.returncode, (tmp_path / "none.har").exists()) == (2, False)
    held += [done.stdout, done.stderr]
    assert not [secret for secret in SECRETS for text in held if secret in text]


def test_a_capture_or_a_server_is_not_taken_for_the_output(http: Path, tmp_path: Path) -> None:
    root = tmp_path / "captures"
    (root / "files").mkdir(parents=True)
    (root / "files/a.mcpcap").write_bytes(http.read_bytes())
    for operand in ("files", str(http)):
        for form in ("otlp", "parquet"):
            done = mcpproxy("export", operand, "--format", form, "--force", cwd=tmp_path, MCPPROXY_CAPTURES=str(root))
            assert (done.returncode, done.stdout) == (2, b"")
            out = "FILE" if form == "otlp" else "FOLDER"
            assert f"mcpproxy export {operand} --format {form} -o {out}\n".encode() in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["captures"]
    done = mcpproxy("export", "--format", "otlp", "./files", cwd=tmp_path, MCPPROXY_CAPTURES=str(root))
    assert (done.returncode, (tmp_path / "files").is_file()) == (0, True), done.stderr


TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z40"
MAIL = "jane.roe@bigcorp-mail.com"


@pytest.mark.parametrize(
    "forms", [("parquet", "otlp", "perfetto", "markdown"), pytest.param(("csv", "duckdb"), marks=pytest.mark.soak)]
)
def test_a_redacted_export_holds_no_secret_of_the_bodies_either(tmp_path: Path, forms: tuple[str, ...]) -> None:
    """HAR does not exist for stdio. All tables are written from the same redacted copies."""
    one = CaptureWriter(tmp_path / "one.mcpcap", "x", 1)
    one.handshake()
    one.call(20, 2, "log_in", token=TOKEN, mail=MAIL)
    one.answer(30, 2, content=[{"type": "text", "text": f"hello {MAIL}, your token is {TOKEN}"}])
    one.call(40, 3, "count", word="plain")
    one.answer(50, 3, content=[{"type": "text", "text": "plain words stay"}])
    one.close()
    (tmp_path / "tmp").mkdir()
    for form in forms:
        options = ["--payloads"] if form == "otlp" else []
        words = ["export", "--format", form, *options, "--force"]
        for redacts in (False, True):
            out = tmp_path / f"{form}-{redacts}"
            done = mcpproxy(
                *words,
                *(["--redact"] if redacts else []),
                "-o",
                out,
                tmp_path / "one.mcpcap",
                TMPDIR=str(tmp_path / "tmp"),
            )
            assert done.returncode == 0, complaints(done)
            assert (b"replacements; `mcpproxy share` lists them" in complaints(done)) == redacts
            held = b"".join(plain(path) for path in [out, *out.rglob("*")] if path.is_file())
            # Perfetto's file has no bodies.
            assert (TOKEN.encode() in held, MAIL.encode() in held) == ((not redacts and form != "perfetto",) * 2), form
            assert b"count" in held
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_redacted_export_of_http_is_one_as_well(http: Path, tmp_path: Path) -> None:
    done = mcpproxy("export", "--format", "har", "--redact", "-o", tmp_path / "out.har", http)
    assert done.returncode == 0, complaints(done)
    assert len(json.loads((tmp_path / "out.har").read_bytes())["log"]["entries"]) == 4


def test_a_capture_that_cannot_be_redacted_is_not_exported(tmp_path: Path) -> None:
    done = mcpproxy("export", "--format", "otlp", "--redact", "-o", tmp_path / "out", CORPUS / "not-a-capture.mcpcap")
    assert (done.returncode, done.stdout, complaints(done).count(b"\n")) == (2, b"", 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", FILES)
def test_a_file_is_for_its_owner_alone(form: str, http: Path, tmp_path: Path) -> None:
    assert mcpproxy("export", "--format", form, "-o", tmp_path / "out", http).returncode == 0
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("form", FILES)
def test_nothing_is_overwritten_unless_asked_for(form: str, http: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    done = mcpproxy("export", "--format", form, "-o", tmp_path / "out", http)
    assert (done.returncode, done.stdout) == (73, b"")
    expected = f"mcpproxy: {tmp_path / 'out'} exists; --force replaces it\n"
    assert complaints(done) == expected.encode()
    assert (tmp_path / "out").read_text() == "mine"
    assert mcpproxy("export", "--format", form, "--force", tmp_path / "out", http).returncode == 0
    assert (tmp_path / "out").read_bytes() != b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("form", FILES)
def test_a_capture_that_cannot_be_read_leaves_nothing(form: str, tmp_path: Path) -> None:
    done = mcpproxy("export", "--format", form, "-o", tmp_path / "out", CORPUS / "not-a-capture.mcpcap")
    assert (done.returncode, done.stdout) == (2, b"")
    lines = complaints(done).decode().splitlines()
    assert len(lines) == 2
    assert "not-a-capture.mcpcap" in lines[0]
    assert lines[1] == "mcpproxy: no capture could be read, so nothing was written"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", [form for form in FILES if form != "har"])
def test_a_damaged_capture_is_exported_as_far_as_it_goes(form: str, tmp_path: Path) -> None:
    done = mcpproxy("export", "--format", form, "-o", tmp_path / "out", CORPUS / "damaged.mcpcap")
    assert done.returncode == 2
    assert complaints(done).count(b"\n") == 1
    assert b"; the rest was exported; `mcpproxy verify` lists the damage" in complaints(done)
    assert (tmp_path / "out").stat().st_size > 0


@pytest.mark.parametrize("form", FILES)
def test_every_capture_of_the_corpus_is_exported_or_told(form: str, tmp_path: Path) -> None:
    for capture in CORPUS.glob("*.mcpcap"):
        out = tmp_path / capture.stem
        with redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()) as complained:
            code = run_guarded(export.run, ["--format", form, "-o", str(out), str(capture)], "export")
        assert code in (0, 2), complained.getvalue()
        assert "Traceback" not in complained.getvalue()
        assert out.exists() == bool(printed.getvalue())
        if out.exists() and form in ("har", "perfetto"):
            json.loads(out.read_bytes())
    assert not list(tmp_path.glob(".*"))


def test_a_folder_or_a_missing_one_is_told(http: Path, tmp_path: Path) -> None:
    done = mcpproxy("export", "--format", "har", "-o", tmp_path, http)
    told = f"mcpproxy: cannot write {tmp_path}: it is a folder; name a file in it\n"
    assert (done.returncode, complaints(done).decode()) == (73, told)
    done = mcpproxy("export", "--format", "har", "-o", tmp_path / "no/out", http)
    assert (done.returncode, complaints(done).count(b"\n")) == (73, 1)
    assert b"No such file or directory" in complaints(done)


@needs_namespaces
@pytest.mark.parametrize("form", FILES)
def test_a_full_disk_is_told_in_a_line(form: str, http: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        'mount -t tmpfs -o size=4k none "$1" || exit 99; disk=$1; head -c 4096 /dev/zero > $1/full; shift; '
        '"$@"; code=$?; find $disk; exit $code'
    )
    export = [sys.executable, "-m", "mcpproxy", "export", "--format", form, "-o", str(disk / "out"), str(http)]
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", str(disk), *export], capture_output=True)
    if done.returncode == 99:
        pytest.skip("no tmpfs can be mounted here")
    assert (done.returncode, done.stdout.decode()) == (73, f"{disk}\n{disk}/full\n")
    (line,) = complaints(done).decode().splitlines()
    assert "No space left on device" in line


@pytest.mark.parametrize("form", FILES)
def test_a_signal_leaves_nothing(form: str, place: Place, tmp_path: Path) -> None:
    # Stdin stays open, so the export waits half way.
    with subprocess.Popen(
        [sys.executable, "-m", "mcpproxy", "export", "--format", form, "-o", str(tmp_path / "out"), "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **place.environment, "TMPDIR": str(tmp_path)},
    ) as process:
        wait_until(lambda: any(tmp_path.glob("mcpproxy-*/*")), "the copy of stdin")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, b"Traceback" in errors) == (143, False), errors
    assert [path for path in tmp_path.iterdir() if path.name != "captures"] == []


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "big.mcpcap", "x", 1)
    for number in range(40):
        one.call(number, number, "a", text="x" * 100_000)
    words = ("export", "--format", "otlp", "--force", "-o", str(tmp_path / "out"), str(one.close()))
    assert b"mcpproxy: read 3." in on_terminal(*words)
    assert complaints(mcpproxy(*words)) == b""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--format", "har"], b"no file to write to: give -o FILE"),
        (["--format", "har", "--findings", "out"], b"--findings needs --format parquet, csv or duckdb"),
        (["--format", "csv", "--filter", "tool:x", "out"], b"--filter does not apply to csv; `mcpproxy query -o FILE`"),
        (["--format", "har", "--payloads", "out"], b"--payloads needs --format otlp"),
        (["--format", "har", "--filter", "(", "out"], b"--filter: "),
        (["--follow", "--redact", "--to", "http://x"], b"--redact needs captures that have ended"),
        (["--format", "har", ""], b"the name of the file to write to is empty"),
        (["--format", "har", "-o", "-"], b"export does not write to stdout: name a file"),
        (["--format", "csv", "-o", "-"], b"export does not write to stdout: name a folder"),
    ],
)
def test_wrong_usage_makes_nothing(words: list[str], why: bytes, tmp_path: Path) -> None:
    done = mcpproxy("export", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert why in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [["report"], ["report", "--redact"], ["export", "--format", "har"], ["export", "--format", "har", "--redact"]],
)
def test_the_capture_that_is_read_is_never_replaced(words: list[str], http: Path, tmp_path: Path) -> None:
    capture, linked = tmp_path / "a.mcpcap", tmp_path / "linked"
    capture.write_bytes(http.read_bytes())
    linked.hardlink_to(capture)
    for output in (capture, linked):
        done = mcpproxy(*words, "--force", "-o", output, capture)
        expected = f"mcpproxy: cannot write {output}: it is the capture that is read; choose another file\n"
        assert (done.returncode, done.stdout, complaints(done)) == (73, b"", expected.encode())
        assert output.read_bytes() == http.read_bytes()


@pytest.mark.parametrize("words", [["report"], ["export", "--format", "har"]])
def test_no_link_is_replaced_wherever_it_leads(words: list[str], http: Path, tmp_path: Path) -> None:
    link = tmp_path / "out"
    link.symlink_to("missing")
    done = mcpproxy(*words, "--force", "-o", link, http)
    assert (done.returncode, complaints(done)) == (
        73,
        f"mcpproxy: cannot write {link}: it is not a regular file\n".encode(),
    )
    assert link.is_symlink()
