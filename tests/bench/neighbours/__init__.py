"""What the checks of other tools find in the corpus of conversations, compared with ours; informs, gates nothing."""
