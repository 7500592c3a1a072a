"""What recording costs, compared with a direct run and a C relay in the same minute; informs, never gates a merge."""
