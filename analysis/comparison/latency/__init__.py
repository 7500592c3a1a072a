"""The aspect of latency: how long calls took, and what chance explains."""
