"""Random views over random tables under random changes, compared with their queries. Start at cases.py."""
