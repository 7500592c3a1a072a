"""The group `http`: how messages, sessions and streams travel over Streamable HTTP."""
