"""``python -m gnnqlab.cli`` is ``gnnqlab``."""

from gnnqlab.cli.line import main

if __name__ == "__main__":
    main()
