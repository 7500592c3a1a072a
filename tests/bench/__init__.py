"""What recording costs, beside a direct run and a C relay in the same minute; informs, and never gates a merge."""
