"""The bytes of recorded items for one request of a client: with its ids, and only its own part of a batch."""

from collections import ChainMap

from analysis.conversation.message import converted_id, id_of_token, parse_exactly
from analysis.playback.translation import Substitutes, tokens_of, translated
from mcpproxy.mock.session_play import Play


def item_bytes(raw: bytes, play: Play, all_ids: dict[bytes, bytes], own_ids: dict[bytes, bytes]) -> bytes:
    """Returns an item that belongs to a request, translated.

    Args:
        raw: its recorded bytes.
        play: the request.
        all_ids: by the recorded id of each request of the conversation, the id that the client uses now.
        own_ids: the recorded ids of the server's requests, each by itself.
    """
    return translated(raw, _substitutes(play, all_ids, own_ids))


def answer_bytes(raw: bytes, play: Play) -> bytes:
    """Returns the response to a request, translated; if the server had changed the type of the id, so does the mock.

    Args:
        raw: its recorded bytes; of a batch, all of it.
        play: the request.
    """
    substitutes = _substitutes(play, {}, {})
    for tokens in () if is_array(raw) else tokens_of(raw):
        if tokens.id is None or tokens.id in substitutes.ids or not play.recorded_id:
            continue
        recorded, today = id_of_token(play.recorded_id), id_of_token(play.id_token)
        changed = converted_id(today).text.encode("utf-8", "replace")
        if converted_id(recorded) == id_of_token(tokens.id) and today.type == recorded.type and _is_json(changed):
            substitutes = substitutes._replace(ids={tokens.id: changed})
    return translated(raw, substitutes)


def is_array(raw: bytes) -> bool:
    """Whether bytes of JSON are a batch."""
    return raw.lstrip()[:1] == b"["


def _substitutes(play: Play, all_ids: dict[bytes, bytes], own_ids: dict[bytes, bytes]) -> Substitutes:
    ids = {play.recorded_id: play.id_token} if play.recorded_id else {}
    tokens = {play.recorded_progress: play.progress_token} if play.recorded_progress and play.progress_token else {}
    return Substitutes(ChainMap(ids, all_ids) if all_ids else ids, tokens, own_ids)


def _is_json(token: bytes) -> bool:
    try:
        parse_exactly(token)
    except (ValueError, RecursionError):
        return False
    return True
