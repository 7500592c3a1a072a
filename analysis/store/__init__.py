"""Tables and views of captures for SQL queries.

This is the only package that uses DuckDB. It loads DuckDB inside functions, or in modules that only SQL commands use,
so importing `analysis` or `analysis.store` costs nothing.
"""
