"""The aspects of values and sequence: what results contain, and which calls were made in which order."""
