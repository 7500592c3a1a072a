"""The group `tasks`: tasks of 2025-11-25, in which either side continues the work after answering the request."""

MODULES = ("requests", "calls", "related_tasks", "results", "reports")
