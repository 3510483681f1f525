"""Prints how far each part of ours is from the original, and fails where it is too far.

Usage:
    python -m tests.parity
"""

import sys

import pytest

from benchmarks.harness import markdown_table
from tests.parity.difference import merge
from tests.parity.parts import PARTS


def main():
    rows = {}
    try:
        for compare in PARTS.values():
            for difference in compare():
                rows.setdefault((difference.part, difference.allowed), []).append(difference)
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))
    merged = [merge(differences) for differences in rows.values()]
    cells = [
        (row.part, f"{row.compared:,}", f"{row.largest:.2g}", row.allowed, row.worst)
        for row in merged
    ]
    header = ("part", "compared", "largest difference", "allowed", "where it is")
    print(markdown_table(header, cells))
    sys.exit(not all(row.agrees for row in merged))


if __name__ == "__main__":
    main()
