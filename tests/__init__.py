"""The tests mirror the three packages; `harness` holds what they share."""
