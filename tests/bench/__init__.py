"""What recording costs, compared with a direct run and a C relay in the same minute.

It informs, and never gates a merge.
"""
