"""What the checks of other tools find on the corpus of conversations, beside ours; informs, and gates nothing."""
