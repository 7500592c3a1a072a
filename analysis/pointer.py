"""Steps of a JSON Pointer (RFC 6901): names as they stand between its slashes."""


def step(name: str, most: int | None = None) -> str:
    """A name as one step.

    Args:
        name: any text; it may come from the traffic.
        most: of how many of its characters; None for all.
    """
    return name[:most].replace("~", "~0").replace("/", "~1")
