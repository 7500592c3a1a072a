"""Loads the plain part of a capture by DuckDB itself, which is twice as fast, where the rows are proved equal.

`opening` finds where the plain part begins, `lines` proves what DuckDB reads line by line, and `exchanges` that what
HTTP exchanges carry belongs to the one session; `odd` judges the frames that DuckDB might read differently, `child`
runs the SQL in a locked process, and `parent` puts them together. The statements that fill a table bear its name.
"""
