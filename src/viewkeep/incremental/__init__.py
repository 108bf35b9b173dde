"""The delta of each operator, one operator a file. Start at delta.py."""
