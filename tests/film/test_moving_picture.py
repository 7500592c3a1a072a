"""The moving picture shows each screen of a recording at its time."""

import re
from xml.etree import ElementTree as ET

from tests.film.moving_picture import screens, svg

OUTPUT = [(1.0, "$ "), (1.01, "l"), (2.0, "s\r\n\x1b[31;1mnotes\x1b[0m <&>"), (4.0, "\x1b[?25l\x1b[2J\x1b[Hend")]


def texts(line: str) -> str:
    return "".join(ET.fromstring(f"<line>{line}</line>").itertext()).rstrip()


def test_output_that_follows_at_once_belongs_to_the_same_screen() -> None:
    assert [screen.start_s for screen in screens(OUTPUT, (20, 3))] == [1.01, 2.0, 4.0]


def test_a_screen_has_what_the_terminal_showed() -> None:
    shown = [[texts(line) for line in screen.lines] for screen in screens(OUTPUT, (20, 3))]
    assert shown == [["$ l", "", ""], ["$ ls", "notes <&>", ""], ["end", "", ""]]


def test_colours_are_kept() -> None:
    line = screens(OUTPUT, (20, 3))[1].lines[1]
    assert re.search(r'class="b" style="fill:#ff6b6b"[^>]*>notes<', line)


def test_each_screen_is_in_sight_from_its_time_on() -> None:
    picture = svg(screens(OUTPUT, (20, 3)), (20, 3), "a <title>", still_s=2.5)
    ET.fromstring(picture)
    steps = re.findall(r"([\d.]+)%\{transform:translateY\((-?[\d.]+)px\)\}", picture)
    duration_s = 4.0 - 1.01 + 3.0
    assert [round(float(share) * duration_s / 100, 2) for share, _ in steps] == [0.0, 0.99, 2.99, duration_s]
    height = 3 * 18 + 24
    assert [float(offset) for _, offset in steps] == [0, -height, -2 * height, -2 * height]


def test_viewers_who_want_less_motion_see_one_screen() -> None:
    picture = svg(screens(OUTPUT, (20, 3)), (20, 3), "title", still_s=2.5)
    assert "prefers-reduced-motion:reduce){#film{animation:none;transform:translateY(-78px)}}" in picture
