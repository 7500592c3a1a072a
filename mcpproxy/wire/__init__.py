"""From bytes to frames: what delimits a frame on each transport. Nothing here parses JSON."""
