"""`python -m docsite`: write the reference pages anew."""

from __future__ import annotations

import sys

from docsite.reference import write_pages

if __name__ == "__main__":
    for name in write_pages():
        sys.stderr.write(f"{name}\n")
