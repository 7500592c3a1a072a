"""The screens. Each module has an `ENTRY`, by which the app finds it (`mcpproxy.tui.app` tells how to add one)."""
