"""`mcpproxy query`: the captures it reads, every output format, files, mistakes, and the prompt."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from analysis.store.reference import relations, view_texts
from analysis.store.tables import TABLE_NAMES
from tests.analysis.store.capture_writer import CaptureWriter
from tests.bench.check import repeated
from tests.harness import DEADLINE_S, ROOT, children, is_alive, wait_until
from tests.mcpproxy.cli.test_terminal_integration import ACTS, hostile_capture
from tests.mcpproxy.cli.typed import complaints, mcpproxy, on_terminal, python, started
from tests.warm import Started

CORPUS = ROOT / "tests/corpus/captures"
DEMO = CORPUS / "demo.mcpcap"
RUNAWAY = "select count(*) from range(100000000) a, range(100000000) b where a.range + b.range = 7"
MANY_ROWS = "select range as a, range as b, range as c from range(20000000)"
"""These rows take far longer to write than a tenth of a second."""
INTO_A_FILE = """
import os, sys
os.dup2(os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
from mcpproxy.__main__ import main
sys.exit(main())
"""
"""A command whose stdout is the file that its first argument names."""
IN_SMALL_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
from mcpproxy.__main__ import main
sys.exit(main())
"""
"""A command that cannot write a file of more than 8 KiB."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one recorded server, `demo`; every command of a test uses it."""
    made = tmp_path / "home"
    folder = made / "captures/demo"
    folder.mkdir(parents=True)
    shutil.copy(DEMO, folder / "20261121T101502Z-4f2a.mcpcap")
    monkeypatch.setenv("HOME", str(made))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return made


def query(*arguments: str | Path, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    home = os.environ["HOME"]
    return mcpproxy("query", *arguments, stdin=stdin, HOME=home, MCPPROXY_CAPTURES=f"{home}/captures")


@pytest.mark.costly("rows are made and written until the time is over, twice")
def test_the_limit_of_time_is_one_on_printing_into_a_file_as_well(home: Path) -> None:
    for name in ("printed.csv", "/dev/null"):
        words = (name, "query", MANY_ROWS, DEMO, "--format", "csv", "--timeout", "0.1")
        done = python(INTO_A_FILE, *words, cwd=Path.cwd())
        assert done.returncode == 2
        assert b"stopped after 0.1 s" in done.stderr


def answered(*arguments: str | Path, stdin: bytes = b"") -> str:
    """Returns the stdout of a query that succeeds without complaints."""
    done = query(*arguments, stdin=stdin)
    assert (done.returncode, complaints(done)) == (0, b"")
    return done.stdout.decode()


def refused(*arguments: str | Path, code: int = 2, stdin: bytes = b"") -> str:
    """Returns the stderr of a query that fails."""
    done = query(*arguments, stdin=stdin)
    assert (done.returncode, done.stdout) == (code, b"")
    return complaints(done).decode()


# ---- the query, and its captures


def test_the_newest_capture_is_meant_where_none_is_named(home: Path) -> None:
    assert answered("select server, frames from captures") == "server  frames\ndemo        53\n1 row\n"
    other = home / "captures/other"
    other.mkdir()
    shutil.copy(CORPUS / "stdio.mcpcap", other / "20261122T101502Z-4f2b.mcpcap")
    assert "other" in answered("select path from captures", "--json")


def test_query_accepts_every_way_to_name_a_capture(home: Path) -> None:
    """Each capture is named in its own way, and one query reads all of them."""
    root = home / "captures"
    places = [root / "other/20261122T101502Z-77aa.mcpcap", root / "other/20261122T101502Z-77ab.mcpcap"]
    places += [root / "more/a.mcpcap", root / "more/b.mcpcap", home / "folder/a.mcpcap", home / "file.mcpcap"]
    places += [Path("here.mcpcap").absolute(), Path("there.mcpcap").absolute()]
    for number, path in enumerate(places):
        path.parent.mkdir(exist_ok=True)
        CaptureWriter(path, "many", capture=f"{number + 1}".rjust(8, "0").ljust(32, "0")).close()
    id_, beginning = f"{3:08}".ljust(32, "0"), f"{4:08}"
    names: list[str | Path] = ["demo", "77aa", "77ab", id_, beginning, home / "folder", home / "file.mcpcap"]
    paths = answered("select path from captures", *names, "here.mcpcap", "./there.mcpcap", "--json")
    found = sorted(json.loads(line)["path"] for line in paths.splitlines())
    assert found == sorted(map(str, [root / "demo/20261121T101502Z-4f2a.mcpcap", *places]))
    assert answered("select count(*) as n from captures", ".", "--json") == '{"n":2}\n'
    for name in (id_, beginning):
        shown = mcpproxy("show", name, MCPPROXY_CAPTURES=str(root), HOME=str(home))
        assert (shown.returncode, complaints(shown)) == (0, b"")
    for name in (beginning[:7], "0" * 32, id_ + "0"):
        shown = mcpproxy("show", name, MCPPROXY_CAPTURES=str(root), HOME=str(home))
        assert (shown.returncode, shown.stdout) == (2, b"")
        assert b"there is no capture, folder or server called" in complaints(shown)


def test_many_captures_answer_together(home: Path) -> None:
    folder = home / "many"
    folder.mkdir()
    for number in range(40):
        one = CaptureWriter(folder / f"{number}.mcpcap", "many", number)
        one.handshake()
        one.close()
    sql = "select count(*) as n, count(distinct capture) as c from frames"
    assert json.loads(answered(sql, folder, DEMO, "--json")) == {"n": 40 * 3 + 53, "c": 41}


def test_sql_comes_from_an_argument_a_file_or_a_pipe(home: Path) -> None:
    """Options may be anywhere among the arguments; `test_query.py` has every source."""
    sql = "select count(*) as n\nfrom frames -- all of them\n;\n"
    Path("q.sql").write_bytes(b"\xef\xbb\xbf" + sql.encode())
    assert answered("--json", f"-- how many = all\n{sql}", "demo") == '{"n":53}\n'
    assert answered("-f", "q.sql", "--format", "json") == '{"n":53}\n'
    assert answered("demo", "--json", stdin=sql.encode()) == '{"n":53}\n'


def test_a_capture_may_come_from_a_pipe(home: Path) -> None:
    assert answered("select count(*) as n from frames", "-", "--json", stdin=DEMO.read_bytes()) == '{"n":53}\n'
    assert "SQL has to be an argument" in refused("-", stdin=DEMO.read_bytes())


def test_findings_are_there_when_they_are_asked_for(home: Path) -> None:
    sql = "select (select list(distinct rule) from findings) as found, (select list(rule) from findings_by_rule) as by"
    row = json.loads(answered(sql, "--json"))
    assert "id/type-changed" in row["found"]
    assert set(row["by"]) == set(row["found"])


def relation_text(name: str) -> str:
    """Returns what a row of a view stands for."""
    (row,) = (one.row for one in relations() if one.name == name)
    return row


@pytest.mark.costly("five commands make every view to tell of them")
def test_views_and_their_columns_are_told_without_a_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    listed = answered("--views")
    kinds = dict(re.findall(r"^(\w+) +(view|table)  ", listed, re.MULTILINE))
    assert kinds.items() >= dict.fromkeys(("latency", "error_rates", "id_mismatches"), "view").items()
    assert (kinds["lifecycle_violations"], kinds["frames"]) == ("view", "table")
    assert relation_text("timeline") in " ".join(listed.split())
    told = answered("--schema", "latency")
    assert "p95_ms" in told
    assert "latency: one row per" in told.replace("\n", " ")
    assert max(map(len, told.splitlines()[:-2])) <= 80
    assert "…" not in listed + told
    assert json.loads(answered("--schema", "LATENCY", "--json").splitlines()[0])["column"] == "server"
    assert "nearest names here: latency" in refused("--schema", "latenc")


def test_views_are_told_in_the_sql_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    told = answered("--views", "--dialect", "spark")
    assert told.isascii()
    made = re.findall(r"^create or replace temporary view (\w+) as$", told, re.MULTILINE)
    assert made == [*TABLE_NAMES, *view_texts()]
    # Statements that create tables come before those that read them.
    for number, statement in enumerate(told.split(";\n\n")[:-1]):
        own = set(re.findall(r"^(?:with )?(\w+) as \($", statement, re.MULTILINE))
        assert not (set(re.findall(r"(?:from|join) (\w+)", statement)) - own) & set(made[number + 1 :]), statement
    assert "comment on" not in told
    answered("--views", "--dialect", "spark", "-o", str(tmp_path / "views.sql"))
    assert (tmp_path / "views.sql").read_text("utf-8") == told


def test_the_four_questions_have_an_answer(home: Path) -> None:
    answers = ["select * from latency", "select * from latency; from error_rates; from id_mismatches"]
    for sql in (answers[0], f"{answers[1]}; select * from lifecycle_violations"):
        assert max(map(len, answered(sql).splitlines())) <= 80


# ---- output formats


def test_statements_without_rows_print_what_duckdb_says_or_nothing(home: Path) -> None:
    assert answered("create temp table t as select 1 as a; select a from t", "--json") == '{"a":1}\n'
    assert answered("select 1 as a where false", "--json") == ""
    assert answered("select 1 as a where false") == "a\n0 rows\n"


def test_json_has_the_message_itself(home: Path) -> None:
    rows = [json.loads(line) for line in answered("select seq, time, message, raw from frames", "--json").splitlines()]
    assert len(rows) == 53
    assert rows[0]["message"]["method"] == "initialize"
    assert re.fullmatch(r"2026-11-21T\d\d:\d\d:\d\d\.\d+Z", rows[0]["time"])


def test_json_has_timestamps_in_lists_and_structs_as_everywhere(home: Path) -> None:
    sql = "select list(time) as l, list({'t': time, 'z': time::timestamptz_ns, 'v': 'x'}) as s, any_value(time) as t"
    row = json.loads(answered(f"{sql} from frames where seq = 2", "--json"))
    assert re.fullmatch(r"2026-11-21T\d\d:\d\d:\d\d\.\d+Z", row["t"])
    assert (row["l"], row["s"]) == ([row["t"]], [{"t": row["t"], "z": row["t"], "v": "x"}])


def test_no_payload_controls_the_terminal(home: Path) -> None:
    """This is for tables; `test_terminal_integration.py` has the rest."""
    capture = hostile_capture(home / "hostile.mcpcap")
    sql = "from frames positional join (select name, error, id as asked from exchanges)"
    for form in ("json", "csv", "markdown"):
        output = on_terminal("query", sql, str(capture), "--format", form, HOME=str(home)).decode("utf-8")
        assert ACTS.findall(re.sub(r"\x1b\[(?:0|2|35|36|1;31)m", "", output)) == [], form
        assert "owned" in output, form


def test_a_closed_pipe_ends_it_silently(home: Path) -> None:
    with started("query", "from range(1000000000)", DEMO, "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(2)] == [b'{"range":0}\n', b'{"range":1}\n']
        process.stdout.close()
        assert (process.wait(DEADLINE_S), process.stderr.read()) == (0, b"")


# ---- files


OF_EVERY_KIND = (
    "from (values (1, '=1+1', null, '-1'), (20, 'a|b', 0.5, chr(9) || '@')) t(n, text, f, \"=e\") order by n"
)
WRITTEN = {
    "a.csv": 'n,text,f,"\'=e"\r\n1,"\'=1+1",,"\'-1"\r\n20,"a|b",0.5,"\'\t@"\r\n',
    "a.json": '{"n":1,"text":"=1+1","f":null,"=e":"-1"}\n{"n":20,"text":"a|b","f":0.5,"=e":"\\t@"}\n',
    "a.md": "| n | text | f | =e |\n|---:|---|---:|---|\n"
    "| 1 | =1+1 |  | -1 |\n| 20 | a\\|b | 0.5 | \\\\t&#64;<!-- --> |\n",
    "a.txt": " n  text     f  =e\n 1  =1+1  NULL  -1\n20  a|b    0.5  \\t@\n2 rows\n",
}
"""The same rows in every format: formulas, the format's own special characters, and nulls."""


def test_the_name_of_a_file_tells_its_form(home: Path) -> None:
    for name, expected in WRITTEN.items():
        assert answered(OF_EVERY_KIND, "-o", name) == ""
        assert Path(name).read_bytes().decode() == expected
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
    assert sorted(os.listdir()) == sorted(WRITTEN)


def test_a_name_that_says_another_form_is_refused(home: Path) -> None:
    assert "a.xlsx has no extension of a known format (.csv, .json, " in refused("select 1", "-o", "a.xlsx")
    assert os.listdir() == []
    answered("select 1 as a", "-o", "a.xlsx", "--format", "csv")
    assert Path("a.xlsx").read_text() == "a\n1\n"


def test_parquet(home: Path) -> None:
    sql = "select seq, size, time, time::timestamptz_ns as zoned, message, raw, sum(size) over () as total from frames"
    answered(f"{sql} order by seq", "-o", "a.parquet")
    with duckdb.connect() as connection:
        found = connection.execute("select count(*), min(seq), max(total) = sum(size) from 'a.parquet'").fetchall()
        types = [row[1] for row in connection.execute("describe from 'a.parquet'").fetchall()]
    assert found == [(53, 2, True)]
    assert types == ["BIGINT", "BIGINT", "TIMESTAMP_NS", "TIMESTAMPTZ_NS", "VARCHAR", "BLOB", "DECIMAL(38,0)"]
    assert os.listdir() == ["a.parquet"]
    assert "needs a file" in refused("select 1", "--format", "parquet")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_file_is_replaced_only_by_force_and_only_when_the_answer_is_whole(home: Path, name: str) -> None:
    Path(name).write_text("mine")
    assert "--force replaces it" in refused("select 1", "-o", name, code=73)
    failing = "select case when i = 90000 then error('boom') else 1 end from range(100000) t(i)"
    assert "boom" in refused(failing, "-o", name, "--force")
    assert (Path(name).read_text(), os.listdir()) == ("mine", [name])
    answered("select 1 as a", "-o", name, "--force")
    assert Path(name).read_bytes() != b"mine"
    assert os.listdir() == [name]


def test_a_file_that_cannot_be_written_is_told(home: Path) -> None:
    assert "cannot write nowhere/a.csv: No such file or directory" in refused(
        "select 1", "-o", "nowhere/a.csv", code=73
    )
    Path("folder").mkdir()
    for more in ([], ["--force"]):
        assert "cannot write folder: it is a folder" in refused("select 1", "-o", "folder", *more, code=73)
    Path("target").write_text("mine")
    Path("link.csv").symlink_to("target")
    assert "--force replaces it" in refused("select 1", "-o", "link.csv", code=73)
    assert Path("target").read_text() == "mine"
    Path("read.mcpcap").write_bytes(DEMO.read_bytes())
    told = refused("select 1", "read.mcpcap", "-o", "read.mcpcap", "--format", "csv", "--force", code=73)
    assert "it is the capture that is read" in told
    assert Path("read.mcpcap").read_bytes() == DEMO.read_bytes()


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_on_a_full_disk_nothing_is_left(home: Path, name: str) -> None:
    capture = home / "long.mcpcap"
    repeated(DEMO, 1000, capture)
    # So no cache file can be written either, and the query must run without one.
    done = python(IN_SMALL_FILES, "query", "from frames", capture, "-o", name, cwd=Path.cwd(), HOME=str(home))
    assert done.returncode == 73
    assert b"cannot write" in complaints(done)
    assert b"File too large" in complaints(done)
    assert complaints(done).count(b"\n") == 1
    assert b"{" not in complaints(done)
    assert os.listdir() == []


def test_the_limit_of_time_is_one_on_writing_as_well(home: Path) -> None:
    for name in ("a.csv", "a.parquet"):
        said = refused(MANY_ROWS, "--timeout", "0.1", "-o", name)
        assert "stopped" in said
        assert "raise --timeout" in said
        assert os.listdir() == []


# ---- mistakes and losses


def test_errors_point_at_the_place_and_name_what_is_near(home: Path) -> None:
    said = refused("select nosuch from frames").splitlines()
    assert said[0].startswith('mcpproxy: Binder Error: Referenced column "nosuch" not found')
    assert said[-2:] == ["mcpproxy: LINE 1: select nosuch from frames", "mcpproxy:                ^^^^^^"]


def test_a_column_under_its_former_name_is_told_in_one_line(home: Path) -> None:
    said = 'mcpproxy: cannot run the query: no column "name" was found; in captures it is now called "server"\n'
    assert refused("select name from captures") == said


MISTAKES = [
    ([" "], "there is no SQL to run"),
    (["set threads = 1"], "it may SELECT, and make tables, views and macros in its own memory"),
    (["select 1", "nowhere"], "there is no capture, folder or server called nowhere; looked in"),
    (["latency"], 'to query that view: mcpproxy query "from latency"'),
    (["demo", "select 1"], "put the SQL first, then the captures"),
    (["select 1", "gone.mcpcap"], "gone.mcpcap"),
    (["-f", "gone.sql"], "cannot read SQL from gone.sql: No such file"),
    (["select 1", "--timeout", "0"], "not a time such as"),
    (["select 1", "--timeout", "999999m"], "at most ten days"),
    (["select 1", "--memory", "9000000000G"], "not a size of at least"),
    (["select 1", "--memory", "1K"], "not a size of at least"),
    (["select 1", "--force"], "--force needs -o FILE"),
    (["--dialect", "spark"], "--dialect needs --views"),
    (["--views", "--dialect", "spark", "--json"], "takes no --format or --json"),
    (["--views", "--schema", "latency"], "use only one of --views, --schema and --file"),
    (["select 1", "--format", "xml"], "'xml' is not one of table, json"),
]


@pytest.mark.costly("each of 16 mistakes is made in a command of its own")
def test_mistakes_are_reported_and_end_with_2(home: Path) -> None:
    """Mistakes in SQL at the prompt are tested in `test_mistakes_at_the_prompt_are_reported`."""
    for arguments, said in MISTAKES:
        told = refused(*arguments)
        assert said in told, arguments
        assert all(line.startswith("mcpproxy: ") for line in told.splitlines()), arguments
        assert os.listdir() == [], arguments
    assert complaints(mcpproxy("show", "")).startswith(b"mcpproxy: the name of a capture is empty")


def test_one_of_two_captures_with_one_id_has_a_name_of_its_own(home: Path) -> None:
    folder = home / "captures/demo"
    (folder / "20261121T101503Z-5a2b.mcpcap").write_bytes(b"".join(DEMO.read_bytes().splitlines(keepends=True)[:9]))
    both = query("select capture, path from captures", folder, "--json").stdout.splitlines()
    ids = {one["capture"]: one["path"] for one in map(json.loads, both)}
    assert len(ids) == 2
    for id_, path in ids.items():
        # The headers of both have the same id.
        if path.endswith("5a2b.mcpcap"):
            assert json.loads(answered("select path from captures", id_, "--json"))["path"] == path


def test_the_beginning_of_several_ids_is_no_name(home: Path) -> None:
    folder = home / "captures/demo"
    for number in range(2):
        CaptureWriter(folder / f"{number}.mcpcap", "demo", capture=f"abcdef01{number:024x}").close()
    shown = mcpproxy("show", "abcdef01", MCPPROXY_CAPTURES=f"{home}/captures", HOME=str(home))
    assert (shown.returncode, shown.stdout) == (2, b"")
    assert b"the ids of 2 captures begin with abcdef01" in complaints(shown)
    assert answered("select 1 as a", f"abcdef01{1:024x}", "--json") == '{"a":1}\n'


def test_a_file_called_minus_is_stdout(home: Path) -> None:
    assert answered("select 1 as a", "-o", "-", "--json") == '{"a":1}\n'
    assert os.listdir() == []


def test_an_empty_folder_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    commands = (["query", "from captures"], ["stats"], ["export", "out"], ["check"], ["show"])
    for name, asked in (("empty", commands), ("empty/", commands[-2:]), ("./empty", commands[-2:])):
        for command in asked:
            done = mcpproxy(*command, name, cwd=tmp_path)
            assert done.returncode == 2
            assert complaints(done).decode().startswith(f"mcpproxy: no captures in {name}; `mcpproxy ls`"), command
            assert complaints(done).count(b"\n") == 1


def test_of_a_damaged_capture_all_that_is_whole_is_asked(home: Path) -> None:
    done = query("select count(*) as n from frames", CORPUS / "flipped-bit.mcpcap", "--json")
    assert (done.returncode, done.stdout) == (2, b'{"n":19}\n')
    assert b"flipped-bit.mcpcap: 256 B of damage, 1 record lost; results cover the rest" in complaints(done)
    fine = [CORPUS / f"{name}.mcpcap" for name in ("killed", "torn", "two-segments", "ring.3")]
    gap = query("select count(*) as n from frames", *fine, CORPUS / "gap.mcpcap")
    same, lost, begins = complaints(gap).splitlines()
    assert gap.returncode == 0
    assert same.startswith(
        b"mcpproxy: 5 files contain 2 captures in different states, so the records they share count twice: "
    )
    assert b"gap.mcpcap: 3 records lost" in lost
    assert b"ring.3.mcpcap: begins at record " in begins


def test_captures_that_cannot_be_read_do_not_hide_the_others(home: Path) -> None:
    done = query("select count(*) as n from frames", CORPUS / "newer-format.mcpcap", DEMO, "--json")
    assert (done.returncode, done.stdout) == (2, b'{"n":53}\n')
    assert b"a later version of mcpproxy wrote it" in complaints(done)
    assert "no capture could be read" in refused("select 1", CORPUS / "not-a-capture.mcpcap")


def test_too_long_and_too_much_are_told_in_a_line(home: Path) -> None:
    advice = "query less at once, or raise"
    (line,) = refused(RUNAWAY, "--timeout", "0.2").splitlines()
    assert line == f"mcpproxy: stopped after 0.2 s, which is the limit of a query; {advice} --timeout"
    (line,) = refused("select length(repeat('x', 3000000000))", "--memory", "256M").splitlines()
    assert line == f"mcpproxy: stopped: it needs more than 256 MiB of memory; {advice} --memory"


def test_ctrl_c_ends_it_and_its_child(home: Path) -> None:
    with started("query", RUNAWAY, DEMO) as process:
        (child,) = wait_until(lambda: children(process.pid), "the child to be there")
        wait_until(lambda: _processor_s(child) > 0.5, "the query to run")
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
        wait_until(lambda: not is_alive(child), "the child to end")


def _processor_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- the prompt


class Typist:
    """A user at a terminal with a prompt."""

    def __init__(self, process: "subprocess.Popen[bytes]", terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self._unread = b""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def read_until(self, what: str) -> str:
        """Read up to and including a text; returns what was read."""
        until = time.monotonic() + DEADLINE_S
        while what.encode() not in self._unread:
            left_s = max(0, until - time.monotonic())
            assert select.select([self._terminal], [], [], left_s)[0], self._unread
            self._unread += os.read(self._terminal, 65536)
        seen, _, self._unread = self._unread.partition(what.encode())
        return seen.decode() + what

    def press_until(self, key: str, what: str) -> str:
        """Press a key until a text arrives; returns what was read.

        Python's readline looks for signals before it waits for a key and not while it goes to sleep: a Ctrl-C within
        those microseconds waits for the next key. No person is that quick.
        """
        until = time.monotonic() + DEADLINE_S
        while what.encode() not in self._unread:
            assert time.monotonic() < until, self._unread
            self.type(key)
            while what.encode() not in self._unread and select.select([self._terminal], [], [], 1)[0]:
                self._unread += os.read(self._terminal, 65536)
        return self.read_until(what)

    def ask(self, text: str) -> str:
        """Type a line; returns the output up to the next prompt."""
        self.type(text + "\r")
        return self.read_until("sql> ")


@contextmanager
def at_the_prompt(home: Path, *arguments: str | Path) -> Iterator[Typist]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "MCPPROXY_"))},
        "MCPPROXY_CAPTURES": f"{home}/captures",
        "TERM": "dumb",
    }
    with Started(("query", *arguments), environment, theirs) as process:
        os.close(theirs)
        try:
            yield Typist(process, ours)
        finally:
            process.kill()
            os.close(ours)


@pytest.mark.costly("captures are opened twice, and two commands of the prompt make every view")
def test_a_conversation_at_the_prompt(home: Path) -> None:
    with at_the_prompt(home, "demo") as typist:
        typist.read_until("sql> ")
        assert "53" in typist.ask("select count(*) from frames;")
        typist.type("select 7 *\r")
        typist.read_until("...> ")
        assert "42" in typist.ask("6; ")
        assert "lifecycle_violations" in typist.ask(".views")
        assert "p95_ms" in typist.ask(".schema latency")
        assert "there is no view or table nope; .views lists them" in typist.ask(".schema nope")
        assert ".quit" in typist.ask(".help")
        assert "there is no command .nosuch; .help lists them" in typist.ask(".nosuch")
        assert ".schema takes the name of one view or table" in typist.ask(".schema")
        typist.ask("create temp table mine as select 9 as a;")
        assert "id/type-changed" in typist.ask("select distinct rule from findings;")
        typist.type(".quit\r")
        assert typist.process.wait(DEADLINE_S) == 0
    history = home / ".local/state/mcpproxy/query_history"
    kept = history.read_text().splitlines()
    assert kept[:2] == ["select count(*) from frames;", "select 7 * 6;"]
    assert not [line for line in kept if line.startswith(".")]
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert stat.S_IMODE(history.parent.stat().st_mode) == 0o700


def test_mistakes_at_the_prompt_are_reported(home: Path) -> None:
    with at_the_prompt(home, "demo") as typist:
        typist.read_until("sql> ")
        for sql, said in (
            ("selec 1;", "syntax error"),
            ("copy frames to 'x.csv';", "`-o FILE` writes its answer to a file"),
            ("from read_text('/etc/passwd');", "reads captures and nothing else"),
            ("insert into calls select * from calls;", "captures are read-only, so no query can insert into calls"),
            ("update calls set name = 'x';", "captures are read-only, so no query can update calls"),
            ("delete from calls;", "captures are read-only, so no query can delete from calls"),
            ("create secret (type s3);", "without files, network, settings, secrets and extensions"),
            ("from latenzy;", "Did you mean"),
            ("from latenzy;", '"latency"'),
            ("select x.latenzy_ms from (select 1 as b from exchanges) x;", "nearest names here: latency_ms"),
        ):
            assert said in typist.ask(sql), sql
    assert os.listdir() == []


def test_a_history_that_is_damaged_keeps_nobody_from_the_prompt(home: Path) -> None:
    history = home / ".local/state/mcpproxy/query_history"
    history.parent.mkdir(parents=True)
    history.write_bytes(b"select 1 + 1;\n\0\0\nselect '\0';\nselect '\x1b]0;x\x07\r';\nselect 7 * 6;\n")
    with at_the_prompt(home) as typist:
        typist.read_until("sql> ")
        assert "42" in typist.ask("\x10")
        typist.type("\x10\x10\x10")
        assert ACTS.findall(typist.read_until("^M';").replace("\b", "")) == []
        typist.type("\x10\r")
        assert "2" in typist.read_until("sql> ").rpartition(";")[2]
    assert b"\0" not in history.read_bytes()


@pytest.mark.parametrize("word", ["exit", "quit;", " EXIT ; ", ".exit", ".q"])
def test_whoever_wants_to_leave_leaves(home: Path, word: str) -> None:
    with at_the_prompt(home) as typist:
        typist.read_until("sql> ")
        typist.type(f"{word}\r")
        assert typist.process.wait(DEADLINE_S) == 0


def test_a_size_of_the_cache_that_is_none_is_told(home: Path) -> None:
    for words in (["query", "from captures"], ["stats"], ["export", "out"]):
        done = mcpproxy(*words, DEMO, MCPPROXY_CACHE_SIZE="abc")
        assert done.returncode == 0
        assert (
            complaints(done)
            == b"mcpproxy: MCPPROXY_CACHE_SIZE=abc is not a size such as 500M, 10G or 0; the default of 2G is used\n"
        )
    assert mcpproxy("query", "from captures", DEMO, MCPPROXY_CACHE_SIZE="10MiB").stderr == b""


def test_tables_lost_when_the_rules_run_are_reported(home: Path) -> None:
    with at_the_prompt(home) as typist:
        typist.read_until("sql> ")
        # An error whose text speaks of damage does not mean that the cache is damaged.
        typist.ask("create temp table mine as select 9 as a;")
        typist.ask("select 'Could not read'::int;")
        assert "9" in typist.ask("from mine;").replace("mine", "")
        assert "created so far are gone" in typist.ask("select count(*) from findings;")
        assert "created so far are gone" not in typist.ask("select count(*) from findings;")


def test_ctrl_c_stops_the_query_and_not_the_program(home: Path) -> None:
    with at_the_prompt(home) as typist:
        typist.read_until("sql> ")
        typist.ask("create temp table mine as select 9 as a;")
        (child,) = children(typist.process.pid)
        before = _processor_s(child)
        typist.type(RUNAWAY + ";\r")
        wait_until(lambda: _processor_s(child) > before + 0.3, "the query to run")
        typist.type("\x03")
        assert "stopped" in typist.read_until("sql> ")
        # The query was interrupted, not killed, so tables created earlier still exist.
        assert "9" in typist.ask("select a from mine;").replace("mine", "")
        typist.type("select 1,")
        typist.read_until("1,")
        typist.press_until("\x03", "sql> ")
        typist.type("select 2 + 3;\r")
        typist.read_until("5")
        typist.read_until("sql> ")
        typist.type("\x04")
        assert typist.process.wait(DEADLINE_S) == 0
        wait_until(lambda: not is_alive(child), "the child to end")


def test_names_are_completed(home: Path) -> None:
    with at_the_prompt(home) as typist:
        typist.read_until("sql> ")
        typist.type("select count(*) as n from lifecycle_vi\t;\r")
        assert "lifecycle_violations" in typist.read_until("sql> ")
