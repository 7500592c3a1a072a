"""What the checks of other tools find in the corpus of conversations, compared with what `check` finds.

It informs, and gates nothing.
"""
