"""Tables in Markdown, which read well on a terminal too."""

from collections.abc import Sequence


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1
) -> str:
    """Returns a table with columns of even width.

    Args:
        header: name of each column.
        rows: cells of each row.
        text_columns: how many columns, from the left, hold text; the others are set to the right.
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = [
        ":" + "-" * (width - 1) if index < text_columns else "-" * (width - 1) + ":"
        for index, width in enumerate(widths)
    ]
    lines = [
        [
            cell.ljust(width) if index < text_columns else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in (header, *rows)
    ]
    lines.insert(1, rule)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
