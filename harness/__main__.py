"""`python -m harness` is `tfbench`, for hosts where the command is not installed."""

from harness.cli import main

if __name__ == "__main__":
    main()
