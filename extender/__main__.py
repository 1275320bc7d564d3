"""Run Muster's command line as `python -m extender`."""

from extender.cli import main

if __name__ == "__main__":
    main()
