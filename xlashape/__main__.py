"""`python -m xlashape` is the command `xlashape`."""

from xlashape.cli import main

if __name__ == "__main__":
    main()
