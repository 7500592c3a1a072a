"""What a capture means: messages, requests and their answers, sessions, and what links them."""
