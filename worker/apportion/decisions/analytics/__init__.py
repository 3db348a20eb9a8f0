"""Decisions and dead letters as Parquet tables, and the report that is made of them.

Holds the columns, the files that rows are written to, and the rule when a row counts as written. No table
holds a candidate's content or a path. Needs the extra `apportion[analytics]`.
"""
