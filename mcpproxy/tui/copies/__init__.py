"""What leaves the screen when the user asks for it: text in the clipboard, rows and attachments in files."""
