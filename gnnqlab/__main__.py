"""``python -m gnnqlab``: the command ``gnnqlab``, for shells that do not find it."""

from gnnqlab.cli.line import main

if __name__ == "__main__":
    main()
