"""Tables and views of captures for SQL queries.

The only package that uses DuckDB. It loads DuckDB inside functions, or in modules that only SQL commands use: importing
`analysis` or `analysis.store` costs nothing.
"""
