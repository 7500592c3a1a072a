"""Steps of a JSON Pointer (RFC 6901): encodes and decodes the names between its slashes."""


def encode_step(name: str, max_chars: int | None = None) -> str:
    """Encode a name as one step of a pointer.

    Args:
        name: any text; it may come from the traffic.
        max_chars: how many of its characters to use; None for all.
    """
    return name[:max_chars].replace("~", "~0").replace("/", "~1")


def decode_steps(pointer: str) -> list[str]:
    """The decoded names of the steps of a pointer."""
    return [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]
