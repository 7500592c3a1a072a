"""The locations and names of captures."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import paths
from captures.errors import CaptureError
from captures.file import choose_path
from captures.listing import (
    find_captures,
    first_segment,
    has_recorder_path,
    newest_first,
    random_suffix,
    search_roots,
    segment_number,
    segments,
)
from captures.paths import (
    captures_root,
    config_directory,
    new_name,
    safe_name,
    segment_path,
)

ROOT = Path(__file__).parents[2]
VARIABLES = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "MCPPROXY_CAPTURES")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Removes all variables that specify locations."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


linux = pytest.mark.skipif(sys.platform == "darwin", reason="macOS has places of its own")


class TestDirectories:
    """Directories follow the environment, else the system's convention."""

    @linux
    def test_the_users_data_directory_is_the_usual_place(self, bare: pytest.MonkeyPatch) -> None:
        bare.setenv("HOME", "/home/ada")
        assert captures_root() == "/home/ada/.local/share/mcpproxy/captures"
        assert config_directory() == "/home/ada/.config/mcpproxy"
        bare.setenv("XDG_DATA_HOME", "/data")
        bare.setenv("XDG_CONFIG_HOME", "/config")
        assert captures_root() == "/data/mcpproxy/captures"
        assert config_directory() == "/config/mcpproxy"

    def test_a_relative_base_directory_is_ignored(self, bare: pytest.MonkeyPatch) -> None:
        """The XDG specification requires this."""
        bare.setenv("HOME", "/home/ada")
        usual = captures_root()
        bare.setenv("XDG_DATA_HOME", "data")
        assert captures_root() == usual

    def test_one_variable_overrides_all(self, bare: pytest.MonkeyPatch) -> None:
        bare.setenv("HOME", "/home/ada")
        bare.setenv("MCPPROXY_CAPTURES", "/captures")
        assert captures_root() == "/captures"
        assert search_roots()[0] == Path("/captures")

    @linux
    def test_readers_look_where_a_recorder_with_less_environment_wrote(self, bare: pytest.MonkeyPatch) -> None:
        bare.setenv("HOME", "/home/ada")
        bare.setenv("XDG_DATA_HOME", "/data")
        assert search_roots() == [
            Path("/data/mcpproxy/captures"),
            Path("/home/ada/.local/share/mcpproxy/captures"),
        ]

    def test_without_a_home_the_password_database_knows_one(self, bare: pytest.MonkeyPatch) -> None:
        import pwd

        assert paths.user_home() == pwd.getpwuid(os.getuid()).pw_dir

    def test_no_home_at_all_says_what_to_do(self, bare: pytest.MonkeyPatch) -> None:
        bare.setattr(os, "getuid", lambda: 987_654_321)
        assert config_directory() is None
        assert search_roots() == []
        with pytest.raises(CaptureError, match="MCPPROXY_CAPTURES"):
            captures_root()


class TestNames:
    """Names of captures consist of the time and random digits; names of servers are made harmless."""

    def test_a_new_name_is_utc_time_and_chance(self) -> None:
        names = {new_name(10**18 + 7) for _ in range(50)}
        assert all(re.fullmatch(r"20010909T014640Z-[0-9a-f]{4}\.mcpcap", name) for name in names)
        assert len(names) > 40

    def test_what_recorders_write_is_known_by_name_and_place(self, tmp_path: Path) -> None:
        path = Path(choose_path(None, tmp_path / "files", 10**18))
        assert random_suffix(path) == path.name[17:21]
        assert random_suffix(Path(segment_path(path, 12))) == path.name[17:21]
        assert has_recorder_path(path, tmp_path)
        for root in (tmp_path.parent, path.parent):
            assert not has_recorder_path(path, root)
        assert not has_recorder_path(tmp_path / "no server" / path.name, tmp_path)
        stem = path.name.removesuffix(".mcpcap")
        for name in (f"{stem}.1.mcpcap", f"{stem}-repaired.mcpcap", f"{stem}.x.mcpcap", stem, f"case-{stem}.mcpcap"):
            assert random_suffix(path.with_name(name)) is None, name
            assert not has_recorder_path(path.with_name(name), tmp_path), name

    @given(st.text())
    def test_the_folder_of_any_server_is_one_harmless_component(self, name: str) -> None:
        safe = safe_name(name)
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", safe)
        assert safe_name(safe) == safe

    @pytest.mark.parametrize(
        ("name", "safe"),
        [
            ("@scope/files", "scope-files"),
            ("../../etc", "etc"),
            ("", "server"),
            ("..", "server"),
            (".hidden", "hidden"),
        ],
    )
    def test_names_that_lead_elsewhere_do_not(self, name: str, safe: str) -> None:
        assert safe_name(name) == safe


class TestSegments:
    """The segments of a capture are NAME.mcpcap, NAME.2.mcpcap, …"""

    @given(st.from_regex(r"[a-z0-9.-]{1,9}[a-z-]", fullmatch=True), st.integers(1, 10**9 - 1))
    def test_a_segments_name_leads_to_the_first_and_back(self, stem: str, number: int) -> None:
        first = Path("/d", f"{stem}.mcpcap")
        path = Path(segment_path(first, number))
        assert (first_segment(path), segment_number(path)) == (first, number)

    @pytest.mark.parametrize("name", ["x.0.mcpcap", "x.02.mcpcap", "x.1234567890.mcpcap", "x.-1.mcpcap", "x..mcpcap"])
    def test_what_is_no_number_is_part_of_the_name(self, name: str) -> None:
        assert first_segment(Path(name)) == Path(name)
        assert segment_number(Path(name)) == 1

    def test_those_of_one_capture_come_in_order_of_their_numbers(self, tmp_path: Path) -> None:
        for name in ("x.10.mcpcap", "x.mcpcap", "x.2.mcpcap", "xy.mcpcap", "x.2x.mcpcap", "x.mcpcap.2", "y.2.mcpcap"):
            (tmp_path / name).touch()
        expected = [tmp_path / name for name in ("x.mcpcap", "x.2.mcpcap", "x.10.mcpcap")]
        for name in ("x.mcpcap", "x.2.mcpcap", "x.77.mcpcap"):
            assert segments(tmp_path / name) == expected
        assert segments(tmp_path / "x.2x.mcpcap") == [tmp_path / "x.2x.mcpcap"]

    def test_a_folder_is_looked_through_once_for_all_that_is_in_it(self, tmp_path: Path) -> None:
        for number in range(100):
            (tmp_path / f"{number}x.mcpcap").touch()
        os.utime(tmp_path, (1_000_000_000, 1_000_000_000))
        count = """
import sys
from pathlib import Path
from captures.listing import segments
seen = []
sys.addaudithook(lambda event, _: seen.append(event) if event == "os.scandir" else None)
found = [segments(Path(path)) for path in sys.argv[1:]]
print(len(found), sum(map(len, found)), len(seen))
"""
        command = [sys.executable, "-c", count, *map(str, tmp_path.iterdir())]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert told.split() == ["100", "100", "1"]

    def test_a_new_segment_shows_at_once(self, tmp_path: Path) -> None:
        (tmp_path / "x.mcpcap").touch()
        os.utime(tmp_path, (1_000_000_000, 1_000_000_000))
        assert len(segments(tmp_path / "x.mcpcap")) == 1
        for number in range(2, 9):
            (tmp_path / f"x.{number}.mcpcap").touch()
            assert len(segments(tmp_path / "x.mcpcap")) == number

    def test_a_foreign_or_missing_name_is_its_own_only_segment(self, tmp_path: Path) -> None:
        for path in (tmp_path / "x.json", tmp_path / "none.mcpcap", tmp_path / "nowhere/none.mcpcap"):
            assert segments(path) == [path]


class TestFinding:
    """Finding all captures below a folder."""

    def test_each_capture_once_by_its_first_present_segment(self, tmp_path: Path) -> None:
        (tmp_path / "files").mkdir()
        for name in ("a.mcpcap", "files/b.3.mcpcap", "files/b.12.mcpcap", "files/c.txt", "files/.mcpcap.txt"):
            (tmp_path / name).touch()
        assert sorted(find_captures(tmp_path)) == [tmp_path / "a.mcpcap", tmp_path / "files/b.3.mcpcap"]
        assert find_captures(tmp_path / "none") == []

    def test_the_newest_start_comes_first_whenever_it_was_written_last(self, tmp_path: Path) -> None:
        names = ["20260101T000000Z-aaaa.mcpcap", "20260201T000000Z-aaaa.mcpcap", "20251231T235959Z-ffff.mcpcap"]
        for age, name in enumerate(names):
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (10**9 - age, 10**9 - age))
        assert [path.name[:8] for path in find_captures(tmp_path)] == ["20260201", "20260101", "20251231"]

    def test_names_without_a_time_go_by_their_last_write(self, tmp_path: Path) -> None:
        for name, when in (
            ("old.mcpcap", 10**9),
            ("20100101T000000Z-aaaa.mcpcap", 2 * 10**9),
            ("new.mcpcap", 17 * 10**8),
        ):
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (when, when))
        gone, odd = tmp_path / "gone.mcpcap", tmp_path / "20261399T999999Z-aaaa.mcpcap"
        found = [path.name[:4] for path in newest_first([*tmp_path.iterdir(), gone, odd])]
        assert found[:3] == ["new.", "2010", "old."]
        assert sorted(found[3:]) == ["2026", "gone"]
