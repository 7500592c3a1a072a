"""The tests mirror the three packages; `harness` is what they share."""
