"""`python -m viewkeep.cli`: the same as the `viewkeep` command."""

from viewkeep.cli.main import main

if __name__ == "__main__":
    main()
