"""Content as text: the blocks of a result, the contents of a resource, the messages of a prompt.

Content that is not text, such as images, is an attachment: named with its type and size, and saved on demand.
"""

import re
from typing import Any, Final, NamedTuple

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.text.lines import TextLines
from mcpproxy.tui.text.values import INDENT, write_json, write_value
from mcpproxy.wording import units
from mcpproxy.wording.exact_json import Pairs, embedded_json, is_array, member, members_without, scalar, value_lines
from mcpproxy.wording.spans import Role

MAX_WORD_CHARS: Final = 200
"""The maximum length of a name, a role or a type in a heading, in characters."""

_ENDINGS: Final = {
    "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", "image/svg+xml": "svg",
    "image/bmp": "bmp", "image/avif": "avif", "audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3",
    "audio/mp3": "mp3", "audio/ogg": "ogg", "audio/flac": "flac", "audio/webm": "webm", "audio/mp4": "m4a",
    "video/mp4": "mp4", "application/pdf": "pdf", "application/json": "json", "application/zip": "zip",
    "application/gzip": "gz", "text/plain": "txt", "text/csv": "csv", "text/markdown": "md",
}  # fmt: skip
"""File name extensions by type; programs and scripts have none."""
_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/=_\-\s]")


class Attachment(NamedTuple):
    """Bytes in a message, as base64."""

    mime: str
    """The type as the peer gave it, sanitised."""
    data: str
    """The bytes as base64, perhaps invalid."""

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return len(self.data.rstrip("=")) * 3 // 4

    @property
    def summary(self) -> str:
        """The type and the size, in words."""
        return f"{self.mime} · {units.size(self.size)}"

    @property
    def extension(self) -> str:
        """The extension for the name of a file with these bytes."""
        return _ENDINGS.get(self.mime.partition(";")[0].strip().lower(), "bin")

    def decoded(self) -> bytes:
        """Returns the bytes.

        Raises:
            ValueError: the data is not base64.
        """
        import base64

        if _NOT_BASE64.search(self.data):
            raise ValueError("it is not base64")
        text = "".join(self.data.split()).rstrip("=").replace("-", "+").replace("_", "/")
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


class MessageWriter:
    """Writes messages as text, and collects their attachments."""

    def __init__(self, width: int) -> None:
        """Start with an empty text.

        Args:
            width: the width of a line, in cells.
        """
        self.lines = TextLines(width)
        self.attachments: list[Attachment] = []

    # ---- text

    def write_text(self, text: str, indent: int = 0, role: Role = "plain") -> None:
        """Write a text of a peer; JSON is indented."""
        value = embedded_json(text)
        if value is None:
            self.lines.write_foreign(text, indent, role)
            return
        if not text.isascii():
            stripped = re.sub(r"[\t\r\n]", "", text)
            self.lines.has_hidden = self.lines.has_hidden or sanitise(stripped, None) != stripped
        write_json(self.lines, value, indent)

    def write_other_members(self, value: Any, *names: str, indent: int = 0) -> None:
        """Write the members that are not in `names`, except `_meta`, which is not shown as text."""
        other_members = members_without(value, *names, "_meta")
        if other_members:
            write_value(self.lines, other_members, indent)

    # ---- blocks

    def write_blocks(self, content: Any, indent: int = 0) -> None:
        """Write the blocks of some content, each with a heading if there are several."""
        content_blocks = content if is_array(content) else [content]
        for number, block in enumerate(content_blocks, 1):
            self.write_block(block, f"{number} of {len(content_blocks)}" if len(content_blocks) > 1 else "", indent)

    def write_block(self, block: Any, position: str = "", indent: int = 0) -> None:
        """Write one block."""
        kind = member(block, "type")
        text, data = member(block, "text"), member(block, "data")
        if kind == "text" and isinstance(text, str):
            self._write_heading(f"text {position}" if position else "", block, indent)
            if text:
                self.write_text(text, indent)
            else:
                self.lines.write_line("empty text", "dim", indent)
            self.write_other_members(block, "type", "text", "annotations", indent=indent)
        elif kind in ("image", "audio") and isinstance(data, str):
            self._write_heading(f"{kind} {position}" if position else "", block, indent)
            self.write_attachment(kind, member(block, "mimeType"), data, indent)
            self.write_other_members(block, "type", "data", "mimeType", "annotations", indent=indent)
        elif kind == "resource":
            self._write_heading(f"resource {position}".rstrip(), block, indent)
            self.write_resource(member(block, "resource"), indent)
            self.write_other_members(block, "type", "resource", "annotations", indent=indent)
        elif kind in ("tool_use", "tool_result", "resource_link") or not isinstance(block, Pairs):
            words = str(kind).replace("_", " ") if isinstance(block, Pairs) else "block"
            self.lines.write_line(f"{words} {position}".rstrip(), "dim", indent)
            self.write_other_members(block, "type", indent=indent + INDENT) if isinstance(
                block, Pairs
            ) else write_value(self.lines, block, indent + INDENT)
        else:
            self.lines.write_line(f"block {position}".rstrip(), "dim", indent)
            self.write_other_members(block, indent=indent + INDENT)

    def _write_heading(self, words: str, block: Any, indent: int) -> None:
        """Write the words and the annotations of a block in one line, unless there are none."""
        annotations = member(block, "annotations")
        for name, inner in annotations[:8] if isinstance(annotations, Pairs) else ():
            value = ", ".join(map(scalar, inner)) if is_array(inner) else scalar(inner)
            words += f" · {sanitise(name, 40)} {sanitise(value, 80)}"
        if words:
            self.lines.write_line(words.removeprefix(" · "), "dim", indent)

    def write_resource(self, value: Any, indent: int = 0) -> None:
        """Write the contents of a resource: text or a blob."""
        uri, mime = member(value, "uri"), member(value, "mimeType")
        text, blob = member(value, "text"), member(value, "blob")
        if isinstance(uri, str):
            self.lines.write_labelled(
                sanitise(uri, MAX_WORD_CHARS), f"· {mime}" if isinstance(mime, str) and not blob else "", indent
            )
        if isinstance(text, str):
            self.write_text(text, indent)
        if isinstance(blob, str):
            self.write_attachment("blob", mime, blob, indent)
        names = [name for name, inner in (("uri", uri), ("text", text), ("blob", blob)) if isinstance(inner, str)]
        names += ["mimeType"] if isinstance(mime, str) and (isinstance(uri, str) or isinstance(blob, str)) else []
        self.write_other_members(value, *names, indent=indent) if isinstance(value, Pairs) else write_value(
            self.lines, value, indent
        )

    def write_attachment(self, kind: str, mime: Any, data: str, indent: int = 0) -> None:
        """Write an attachment, with the key that saves it."""
        attachment = Attachment(sanitise(mime, MAX_WORD_CHARS) if isinstance(mime, str) and mime else kind, data)
        self.attachments.append(attachment)
        self.lines.write_line(f"{attachment.summary}   o saves it", "accent", indent)

    # ---- lists of messages and of contents

    def write_turns(self, messages: Any, indent: int = 0) -> None:
        """Write the messages of a prompt, each below its role."""
        for message in messages if is_array(messages) else [messages]:
            role = member(message, "role")
            self.lines.write_line(
                f"{sanitise(role, MAX_WORD_CHARS) if isinstance(role, str) else 'no role'}:", "accent", indent
            )
            if isinstance(message, Pairs):
                self.write_blocks(member(message, "content"), indent + INDENT)
                self.write_other_members(message, "role", "content", indent=indent + INDENT)
            else:
                write_value(self.lines, message, indent + INDENT)

    def write_structured(self, value: Any, content: Any) -> None:
        """Write the structured content, or only mention it if the text says the same."""
        text = member(content[0], "text") if is_array(content) and content else None
        if isinstance(text, str) and (_is_text_of(text, value) or _is_text_of(text, _wrapped_value(value))):
            self.lines.write_line("structuredContent says the same", "dim")
            return
        self.lines.write_line("structuredContent", "dim")
        write_value(self.lines, value, in_full=True)


def _is_text_of(text: str, value: Any) -> bool:
    """Whether a text is a value itself, or is its JSON."""
    if isinstance(value, str):
        return text == value
    inner = embedded_json(text)
    return inner is not None and list(value_lines(inner)) == list(value_lines(value))


def _wrapped_value(value: Any) -> Any:
    """The value that the official Python SDK wraps as `result`, because structured content must be an object."""
    return value[0][1] if isinstance(value, Pairs) and len(value) == 1 and value[0][0] == "result" else None
