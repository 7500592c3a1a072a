"""Cassettes: the same bytes for the same conversation, the same meaning as the recording, and no secret."""

import json
import multiprocessing
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from analysis.checking.checker import RuleSelection
from analysis.conversation.call import Call
from analysis.reading import Reading
from captures.integrity import inspect_file
from captures.reader import Capture
from captures.record import frame_members, members, seal
from captures.verdict import UNJUDGED
from mcpproxy.sharing import ShareOptions, redacted_copy
from mcpproxy.sharing.scan import likely_secrets
from tests.analysis.traces import CORPUS, read
from tests.harness import DEADLINE_S, Place, wait_until
from tests.http_harness import serving
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.sharing.secret_forms import OWN, fresh
from tests.mcpproxy.sharing.written import written

SHARE = 90
"""The suite takes each 90th conversation of the corpus; `make soak` takes all."""
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5"
OTHER_TOKEN = "ghp_" + "Zb3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN6"
SERVER = [sys.executable, str(Path(__file__).parents[2] / "peers/sdk_server.py")]

pytestmark = pytest.mark.usefixtures("secret_rules")


def cassette(source: Path, target: Path, **options: Any) -> bytes:
    """Returns the bytes of the cassette of a capture."""
    target.unlink(missing_ok=True)
    redacted_copy(source, target, ShareOptions(is_cassette=True, **options))
    return target.read_bytes()


def recording(path: Path, *answers: int, token: str = TOKEN, start: int = 0, **header: Any) -> Path:
    """Write a recording of two calls that overlap, answered in this order."""
    text = f"for {token} of marta.kowalska@acme-corp.io"
    calls: list[tuple[str, Any]] = [
        ("c2s", {"id": id_, "method": "tools/call", "params": {"name": "a", "arguments": {"n": id_}}}) for id_ in (2, 3)
    ]
    calls += [("s2c", {"id": id_, "result": {"content": [{"type": "text", "text": text}]}}) for id_ in answers]
    path.write_bytes(b"".join(written(calls, wall_ns=1_700_000_000_000_000_000 + start, **header)))
    return path


def messages(cassette: bytes) -> list[str]:
    """Returns the frames of a capture."""
    records = [json.loads(line) for line in cassette.splitlines()]
    return [record["raw"] for record in records if record["rec"] == "frame"]


# ---- the same bytes


def test_another_time_machine_and_token_and_another_order_give_the_same_bytes(tmp_path: Path) -> None:
    first = recording(tmp_path / "first.mcpcap", 2, 3)
    second = recording(
        tmp_path / "second.mcpcap",
        3,
        2,
        token=OTHER_TOKEN,
        start=5,
        capture="cd" * 16,
        argv=["/home/ann/bin/python3", "hmac:0123456789abcdef"],
        cwd="/home/ann/work",
        env={"HOME": "hmac:0123456789abcdef"},
        machine="ann-laptop",
        boot_id="5",
        mono_ns=77,
        parents=[{"pid": 1, "start": 2, "exe": "/bin/sh"}],
        tool="mcpproxy 9.9.9",
    )
    made = [cassette(path, tmp_path / f"cassette-{path.name}") for path in (first, second)]
    assert made[0] == made[1]
    assert [json.loads(raw).get("id") for raw in messages(made[0])[3:]] == [2, 2, 3, 3]
    text = made[0].decode()
    assert "for token-1 of user-1@host-1.invalid" in text
    for left in (TOKEN, "acme", "marta", "home", "wall_ns", "pid"):
        assert left not in text
    inspection = inspect_file(tmp_path / "cassette-first.mcpcap")
    assert (inspection.state, inspection.is_redacted, inspection.is_cassette) == ("complete", True, True)


def test_its_id_depends_on_its_content_alone(tmp_path: Path) -> None:
    made = [cassette(recording(tmp_path / "a.mcpcap", *answers), tmp_path / "b.mcpcap") for answers in ((2, 3), (2,))]
    ids = [json.loads(text.splitlines()[0])["capture"] for text in made]
    assert ids[0] != ids[1]
    assert made[0] == cassette(recording(tmp_path / "c.mcpcap", 2, 3), tmp_path / "d.mcpcap")


@pytest.mark.costly("the demo is recorded twice")
def test_the_demo_recorded_twice_has_one_cassette(tmp_path: Path) -> None:
    made = []
    for name in ("first", "second"):
        assert mcpproxy("demo", "--capture", f"{tmp_path / name}/").returncode == 0
        (recorded,) = (tmp_path / name).glob("*.mcpcap")
        made.append(cassette(recorded, tmp_path / f"{name}.mcpcap"))
    assert made[0] == made[1]


@contextmanager
def beside_load() -> Iterator[None]:
    """Keep more cores busy than there are while the block runs."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    others = [context.Process(target=_work, args=(stop,)) for _ in range(4)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        stop.set()
        for other in others:
            other.join(DEADLINE_S)


def _work(stop: Any) -> None:
    while not stop.is_set():
        sum(range(10_000))


async def _talk(client: Client) -> None:
    await client.list_tools()
    await client.list_prompts()
    await client.call_tool("count", {"steps": 3})
    async with anyio.create_task_group() as group:
        for steps in (1, 2, 1, 3):
            group.start_soon(client.call_tool, "count", {"steps": steps})
    await client.call_tool("fail", {})


async def _talk_over_http(url: str) -> None:
    async with Client(streamable_http_client(url), mode="legacy", read_timeout_seconds=DEADLINE_S) as client:
        await _talk(client)


@pytest.mark.soak
def test_the_sdk_recorded_again_over_stdio_has_one_cassette(tmp_path: Path) -> None:
    from tests.mcpproxy.test_sdk_integration import recorded

    async def record(path: Path) -> None:
        async with recorded(SERVER, path, "legacy") as client:
            await _talk(client)

    made = set()
    with beside_load():
        for number in range(6):
            path = tmp_path / f"{number}.mcpcap"
            anyio.run(record, path)
            wait_until(lambda path=path: inspect_file(path).close is not None, "the end of the recording")  # type: ignore[misc]
            made.add(cassette(path, tmp_path / "cassette.mcpcap"))
    assert len(made) == 1


@pytest.mark.soak
def test_the_sdk_recorded_again_over_http_has_one_cassette(tmp_path: Path, place: Place) -> None:
    made = set()
    with beside_load():
        for number in range(6):
            server = place.start(
                [sys.executable, "-m", "tests.peers.sdk_http_server", str(tmp_path / f"account-{number}")],
                direct=True,
            )
            url = server.line().decode().strip()
            with serving(place, url, "--name", "sdk") as served:
                anyio.run(_talk_over_http, served.url)
            server.process.terminate()
            server.process.wait(DEADLINE_S)
            path = tmp_path / f"{number}.mcpcap"
            shutil.move(served.capture, path)
            made.add(cassette(path, tmp_path / "cassette.mcpcap"))
    assert len(made) == 1


# ---- the same meaning

OF_TIME = {
    *("timeout/abandoned-request", "timeout/unanswered", "cache/refetched-while-fresh", "cache/changed-while-fresh"),
    *("http/stream-kept-open", "http/session-reused-after-404", "http/session-refused", "http/message-not-answered"),
    *("progress/flood", "logging/flood", "logging/below-level", "progress/after-cancel", "progress/after-completion"),
    *("progress/not-increasing", "cancel/already-answered", "cancel/task", "ext-events/poll-too-fast"),
    *("ext-events/no-heartbeat", "ext-tasks/unlistened-notification", "capability/undeclared-tools"),
    *("timeout/initialize-unanswered", "timeout/ping-unanswered", "timeout/slow", "timeout/never-cancelled"),
    *("ext-tasks/poll-too-fast", "tasks/poll-too-fast", "tasks/terminal-changed", "sse/retry-ignored"),
    *("subscribe/update-after-unsubscribe", "http/unknown-session-id", "version/retry-unlisted"),
    *("version/mixed-on-connection", "version/fallback-despite-modern"),
    *("legacy-sse/post-after-close", "shutdown/server-left", "shutdown/server-lingers", "auth/challenge-missing"),
}
"""Rules that wait for some time before they judge, or judge how long something took."""
OF_PLACE = {"auth/token-request", "auth/dropped"}
"""Rules about the ports of this machine, and about which of two concurrent requests was first."""
OF_SECRETS = {
    *("logging/secret", "ext-events/webhook-secret", "ext-skills/digest-mismatch", "ext-skills/wrong-size"),
    *("ext-skills/frontmatter-mismatch", "ext-skills/no-frontmatter", "ext-skills/name-mismatch"),
    *("ext-skills/read-ahead",),
}
"""Rules about what any redaction changes."""


def meaning(path: Path) -> tuple[Counter[tuple[str, ...]], Counter[str]]:
    """Returns the calls of a capture with their outcomes and sessions, and the findings by rule."""
    calls: dict[int, Call] = {}
    findings: Counter[str] = Counter()
    for step in Reading(path, RuleSelection()).to_end():
        calls |= {call.number: call for call in step.changed}
        findings.update(finding.rule for finding in step.findings)
    facts: Counter[tuple[str, ...]] = Counter(
        (call.request.sender, call.request.method, str(call.request.id), str(call.outcome), str(call.session.number))
        for call in calls.values()
        if call.session is not None
    )
    return facts, findings


def check_corpus(step: int, folder: Path) -> None:
    """Compare the meaning of each `step`th case of the corpus with that of its cassette."""
    wrong: list[Any] = []
    cases = [case for path in sorted(CORPUS.glob("*.ndjson")) if path.stem != "framing-large" for case in read(path)]
    original, copy = folder / "original.mcpcap", folder / "copy.mcpcap"
    for case in cases[::step]:
        original.write_bytes(b"".join(line for _, line in case.records()))
        cassette(original, copy, compares=False, keeps_unparsed=True)
        (calls, findings), (new_calls, new_findings) = meaning(original), meaning(copy)
        changed = {*(findings - new_findings), *(new_findings - findings)} - OF_TIME - OF_PLACE - OF_SECRETS
        if calls != new_calls or changed:
            wrong.append((case.name, calls - new_calls, new_calls - calls, changed))
        assert inspect_file(copy).state == inspect_file(original).state, case.name
    assert wrong == []


@pytest.mark.costly("it makes the cassettes of thirty conversations, and checks each before and after")
def test_conversations_of_the_corpus_keep_their_meaning(tmp_path: Path) -> None:
    check_corpus(SHARE, tmp_path)


@pytest.mark.soak
def test_all_conversations_of_the_corpus_keep_their_meaning(tmp_path: Path) -> None:
    check_corpus(1, tmp_path)


def test_a_cassette_of_a_cassette_is_the_same(tmp_path: Path) -> None:
    for name in ("http", "demo", "every-type", "gaps", "giant-in-parts"):
        first = cassette(CORPUS.parents[0] / f"captures/{name}.mcpcap", tmp_path / "first.mcpcap")
        assert cassette(tmp_path / "first.mcpcap", tmp_path / "second.mcpcap") == first, name


def test_with_the_times_order_and_times_stay(tmp_path: Path) -> None:
    kept = cassette(recording(tmp_path / "a.mcpcap", 3, 2), tmp_path / "b.mcpcap", keeps_times=True)
    assert [json.loads(raw).get("id") for raw in messages(kept)[3:]] == [2, 3, 3, 2]
    times = [json.loads(line)["t_ns"] for line in kept.splitlines()]
    assert times == [number * 1_000_000_000 for number in range(len(times))]
    assert b"time_is_exact" not in kept


def test_long_waits_between_messages_stay_rounded(tmp_path: Path) -> None:
    path = tmp_path / "a.mcpcap"
    made = []
    for wait_ns in (1_900_200_000_000, 1_899_700_000_000):
        stamps = [0, 1, 14_000_000_000, 14_000_000_001, 14_000_000_002 + wait_ns, 14_000_000_003 + wait_ns]
        lines = [json.loads(line) for line in recording(path, 2).read_bytes().splitlines()]
        path.write_bytes(
            b"".join(_line(line, t_ns) for line, t_ns in zip(lines, [*stamps, *stamps[-1:] * 9], strict=False))
        )
        made.append(cassette(path, tmp_path / "b.mcpcap"))
    assert made[0] == made[1]
    assert [json.loads(line)["t_ns"] // 1_000_000_000 for line in made[0].splitlines()] == [
        0,
        0,
        0,
        0,
        1900,
        1900,
        1900,
        1900,
    ]


def _line(values: dict[str, Any], t_ns: int) -> bytes:
    others = {name: value for name, value in values.items() if name not in ("seq", "rec", "t_ns", "crc")}
    return seal(values["seq"], t_ns, values["rec"], members(**others))


# ---- secrets


def test_no_secret_is_left_and_a_scan_finds_none(tmp_path: Path) -> None:
    planted = fresh(Random(3), OWN)
    said = [{"type": "text", "text": secret.text} for secret in planted]
    call = {
        "id": 2,
        "method": "tools/call",
        "params": {"name": "a", "arguments": {"said": [one["text"] for one in said]}},
    }
    path, copy = tmp_path / "a.mcpcap", tmp_path / "b.mcpcap"
    path.write_bytes(b"".join(written([("c2s", call), ("s2c", {"id": 2, "result": {"content": said}})])))
    text = cassette(path, copy, replaces_personal_numbers=True).decode()
    plain = tmp_path / "c.mcpcap"
    redacted_copy(path, plain, ShareOptions(replaces_personal_numbers=True))
    left_by_share = {secret.kind for secret in planted if secret.text in plain.read_text("utf-8")}
    assert {secret.kind for secret in planted if secret.text in text} <= left_by_share
    assert list(likely_secrets(Capture(copy), personal=True)) == []


# ---- the file


def test_force_renews_only_what_has_changed(tmp_path: Path) -> None:
    path, copy = recording(tmp_path / "a.mcpcap", 2, 3), tmp_path / "b.mcpcap"
    assert mcpproxy("share", "--cassette", path, "-o", copy).returncode == 0
    assert copy.stat().st_mode == path.stat().st_mode, "the recording here is written like any new file"
    before = copy.stat()
    assert b"exists; --force replaces it" in complaints(mcpproxy("share", "--cassette", path, "-o", copy))
    again = mcpproxy("share", "--cassette", "--force", recording(path, 3, 2, token=OTHER_TOKEN), "-o", copy)
    assert b"  the file already has exactly this content, so it was not touched\n" in again.stdout
    after = copy.stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    changed = mcpproxy("share", "--cassette", "--force", "--json", recording(path, 3), "-o", copy)
    assert json.loads(changed.stdout)["unchanged"] is False
    assert len(messages(copy.read_bytes())) == 6
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.mcpcap", "b.mcpcap"]


def test_every_command_reads_it_and_says_what_it_is(tmp_path: Path) -> None:
    path, copy = recording(tmp_path / "a.mcpcap", 2, 3), tmp_path / "b.mcpcap"
    mcpproxy("share", "--cassette", path, "-o", copy)
    assert mcpproxy("verify", copy).stdout.decode() == f"{copy}: complete, redacted, cassette, 9 records\n"
    assert "cassette    yes" in mcpproxy("info", copy).stdout.decode()
    commands: tuple[list[str | Path], ...] = (
        ["show", copy],
        ["check", copy],
        ["compare", path, copy, "--fail-on", "never"],
        ["scan", copy],
    )
    for words in commands:
        done = mcpproxy(*words)
        assert (done.returncode, complaints(done)) == (0, b""), words


def test_keep_times_is_refused_without_cassette(tmp_path: Path) -> None:
    done = mcpproxy("share", "--keep-times", recording(tmp_path / "a.mcpcap"), "-o", tmp_path / "b.mcpcap")
    assert (done.returncode, complaints(done)) == (
        2,
        b"mcpproxy: --keep-times is only for --cassette: any other copy keeps the times\n",
    )


def test_odd_records_are_left_out_or_kept_without_an_error(tmp_path: Path) -> None:
    frame = frame_members("s2c", b"\xff\x00", UNJUDGED, exchange=1 << 62, unit="sse_event", event_id="\x00", conn=3)
    odd: list[tuple[str, bytes]] = [
        ("x_unknown", members(text=TOKEN)),
        ("exchange", members(exchange="7", stage=[], request={"headers": [[], ["a"], [1, 2], "x"]})),
        ("exchange", members(exchange=1 << 62, stage="end", request=5, response={"headers": {}}, ended_by={})),
        ("frame", frame),
        ("stream", members(exchange=-1, event=None)),
        ("eof", members(dir=[], bytes=-1)),
        ("gap", members(first=2, last=1, lost={}, reason="damage")),
        ("close", members(ending=5, totals=[])),
    ]
    lines = written([])
    lines += [seal(len(lines) + number, 1 << 70, rec, middle) for number, (rec, middle) in enumerate(odd)]
    path = tmp_path / "a.mcpcap"
    path.write_bytes(b"".join(lines))
    text = cassette(path, tmp_path / "b.mcpcap")
    assert TOKEN.encode() not in text
    assert [json.loads(line)["seq"] for line in text.splitlines()] == list(range(len(text.splitlines())))


# ---- git


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_shows_what_changed_as_messages(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null"]
        done = subprocess.run(
            ["git", *settings, *words], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=DEADLINE_S
        )
        return done.stdout

    name = tmp_path / "b.mcpcap"
    git("init", "-q")
    show = f"{sys.executable} -P -m mcpproxy show --frame 0..999999999 --as message"
    git("config", "diff.mcpcap.textconv", show)
    (tmp_path / ".gitattributes").write_text("*.mcpcap diff=mcpcap\n")
    cassette(recording(tmp_path / "a.mcpcap", 2), name)
    git("add", "b.mcpcap", ".gitattributes")
    git("commit", "-qm", "a")
    redacted_copy(
        recording(tmp_path / "a.mcpcap", 2, 3), name, ShareOptions(is_cassette=True, replaces=True, compares=False)
    )
    changed = [line for line in git("diff").splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert '+        "text": "for token-1 of user-1@host-1.invalid"' in changed
    assert [line for line in changed if line.startswith("-")] == []
