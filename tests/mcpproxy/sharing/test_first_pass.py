"""Which frames the second pass need not parse."""

from mcpproxy.sharing import first_pass
from mcpproxy.sharing.first_pass import CleanFrames


def test_a_frame_is_clean_if_all_frames_of_its_number_are() -> None:
    clean = CleanFrames()
    for seq, is_clean in ((3, True), (5, False), (3, True), (5, True), (9, True), (9, False)):
        clean.note_frame(seq, is_clean=is_clean)
    assert [seq for seq in range(-1, 12) if seq in clean] == [3]


def test_numbers_of_any_size_take_little_memory() -> None:
    clean = CleanFrames()
    for seq in (first_pass.MAX_NOTED_FRAMES, 1 << 62, -1):
        clean.note_frame(seq, is_clean=True)
        assert seq not in clean
