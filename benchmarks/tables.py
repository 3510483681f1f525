"""Tables in Markdown, which read well on a terminal too."""

from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table with columns of even width; all but the first are set to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    aligned = [
        [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in [header, *rows]
    ]
    aligned.insert(1, rule)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in aligned)
