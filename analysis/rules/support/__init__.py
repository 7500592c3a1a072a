"""What rules of several groups share. Nothing in here is a rule."""
