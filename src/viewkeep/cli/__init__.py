"""The shell: parses arguments, calls the Keeper, prints. Nothing is decided here."""
