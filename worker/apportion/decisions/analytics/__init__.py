"""Decisions, dead letters and usage as Parquet tables, and the report that is made of them.

It has the columns, the files of rows, and the rule when a row counts as written. No table holds a candidate's
content or a path. Needs the extra `apportion[analytics]`.
"""
