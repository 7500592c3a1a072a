"""The file and line of the records that show changes, for annotations; captures are read again for what is written."""

from collections.abc import Iterable

from analysis.comparison.change import Change, Comparison, Place
from captures.damage import Damage
from captures.errors import CaptureError
from captures.reader import Capture
from mcpproxy.check_run.record_locations import RecordLocations
from mcpproxy.check_run.result import RecordLocation
from mcpproxy.report.comparison_files import file_of


def place_of(change: Change, comparison: Comparison) -> Place | None:
    """Returns the record that shows a change: that of the new side, or that of the old one if something is gone.

    It is None if there is none, as in an expectation. If annotations belong to the old side, it is that of the old one.
    """
    is_new = change.new is not None and not comparison.annotates_old
    place, side = (change.new, comparison.new) if is_new else (change.old, comparison.old)
    return place if place is not None and place.frame >= 0 and side.captures else None


def locations_of(changes: Iterable[Change], comparison: Comparison) -> dict[Place, RecordLocation]:
    """Returns where the records are that show these changes. Each capture is read once, up to the last of them.

    A record is left out if its capture cannot be read any more, or if its line is not certain.
    """
    places_by_capture: dict[str, list[Place]] = {}
    changes_by_place = {place: change for change in changes if (place := place_of(change, comparison)) is not None}
    for place in changes_by_place:
        places_by_capture.setdefault(place.capture, []).append(place)
    found: dict[Place, RecordLocation] = {}
    for places in places_by_capture.values():
        path = file_of(changes_by_place[places[0]], comparison)
        last_frame = max(place.frame for place in places)
        try:
            locations = RecordLocations(path)
            for item in Capture(path).items_with_frames():
                locations.on_item(item)
                if not isinstance(item, Damage) and item.seq >= last_frame:
                    break
        except (CaptureError, OSError):
            continue
        located = ((place, locations.place(place.frame)) for place in places)
        found.update((place, location) for place, location in located if location is not None)
    return found
