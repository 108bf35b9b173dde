"""Benchmarks: what a refresh costs, beside what DuckDB needs to run the view's query again."""
