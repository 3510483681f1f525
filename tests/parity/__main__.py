"""Prints how far each part of ours is from the original, and fails where it is too far.

Usage:
    python -m tests.parity
"""

import sys

import pytest

from albert_tf import command_line

with command_line.quiet_start():
    from benchmarks.harness import markdown_table
    from tests.parity.difference import merge
    from tests.parity.parts import PARTS


def main():
    rows = {}
    for title, compare in PARTS.items():
        try:
            for difference in compare():
                rows.setdefault((difference.part, difference.allowed), []).append(difference)
        except pytest.skip.Exception as missing:
            print(f"{title}: {missing}", file=sys.stderr)
    merged = [merge(differences) for differences in rows.values()]
    cells = [(row.part, f"{row.compared:,}", f"{row.largest:.2g}", row.allowed) for row in merged]
    print(markdown_table(("part", "compared", "largest difference", "allowed"), cells))
    failed = [row for row in merged if not row.agrees]
    for row in failed:
        print(f"too far: {row.part}: {row.worst}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
