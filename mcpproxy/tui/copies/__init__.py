"""What the user takes from the screen: text into the clipboard, rows and attachments into files."""
