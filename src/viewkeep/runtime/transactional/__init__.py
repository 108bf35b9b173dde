"""Views in a database with transactions: a refresh and its bookkeeping are one commit."""
