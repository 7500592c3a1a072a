"""Tables and views of captures, to be asked in SQL.

The one package that knows DuckDB, and it loads DuckDB in functions or in modules of which only commands about SQL make
use: importing `analysis` or `analysis.store` costs nothing.
"""
