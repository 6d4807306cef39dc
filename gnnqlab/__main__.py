"""``python -m gnnqlab`` is ``gnnqlab``, where a shell does not find the command."""

from gnnqlab.cli.line import main

if __name__ == "__main__":
    main()
