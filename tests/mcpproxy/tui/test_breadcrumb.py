"""The breadcrumb shows where the user is, in any width and for any name of a capture."""

from mcpproxy.tui.breadcrumb import Crumb, fitted_pieces
from mcpproxy.wording.cells import cells

CRUMBS = [
    Crumb("sessions"),
    Crumb("図書館-filesystem", is_name=True, after=" · session 1"),
    Crumb("findings"),
    Crumb("frame 18"),
]


def text(room: int) -> str:
    return "".join(piece.span.text for piece in fitted_pieces(CRUMBS, room))


def test_it_is_cut_from_the_left_then_in_the_name_then_in_the_middle() -> None:
    assert text(99) == "sessions › 図書館-filesystem · session 1 › findings › frame 18"
    assert text(60) == "… › 図書館-filesystem · session 1 › findings › frame 18"
    assert text(50) == "… › 図書館-file… · session 1 › findings › frame 18"
    assert text(44) == "… › 図書館-files… · session 1 › … › frame 18"
    assert text(20) == "… › frame 18"
    assert text(6) == "frame…"


def test_it_is_never_wider_than_its_room() -> None:
    for room in range(80):
        assert cells(text(room)) <= room
        assert "……" not in text(room)
