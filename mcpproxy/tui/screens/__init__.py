"""The screens. The app finds them by the `ENTRY` of their modules; `mcpproxy.tui.app` explains how to add one."""
