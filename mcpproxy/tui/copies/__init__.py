"""What the user copies from the screen: text into the clipboard, rows and attachments into files."""
