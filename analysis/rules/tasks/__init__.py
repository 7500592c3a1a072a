"""The group `tasks`: tasks of 2025-11-25, with which either side continues to work after it has answered a request."""

MODULES = ("requests", "calls", "related_tasks", "results", "reports")
