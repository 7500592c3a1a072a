"""The mock over HTTP: Streamable HTTP of both eras, and the older transport."""
