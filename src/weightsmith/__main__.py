"""``python -m weightsmith`` is the ``weightsmith`` command."""

from weightsmith.cli import main

if __name__ == "__main__":
    main()
