"""Change capture, versions, refresh, history, verify: everything that touches an open database."""
