"""Decisions, dead letters and usage as Parquet tables without contents and paths, and the report on them."""
