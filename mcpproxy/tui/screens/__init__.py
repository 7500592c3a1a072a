"""The screens. Each module has an `ENTRY`, by which the app finds it (`mcpproxy.tui.app` says how to add one)."""
