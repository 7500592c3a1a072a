"""The group `tasks`: work that either side continues after its request was answered, as in 2025-11-25."""

MODULES = ("requests", "calls", "related_tasks", "results", "reports")
