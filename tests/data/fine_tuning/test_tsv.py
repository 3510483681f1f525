import pytest

from albert_tf.data.fine_tuning.tsv import Columns, Example, read_examples
from albert_tf.errors import InputError

NAMED = Columns(label="label", text_a="first")
PAIRS = Columns(label="label", text_a="first", text_b="second")
NUMBERED = Columns(label=1, text_a=3)


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes) -> str:
        path = tmp_path / "rows.tsv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def test_columns_are_found_by_name_in_any_order_among_others(write):
    path = write("second\tyear\tlabel\tfirst\nb one\t2019\tx\ta one\nb two\t2020\ty\ta two\n")
    assert read_examples(path, PAIRS, "dev") == [
        Example("dev-1", "a one", "b one", "x"),
        Example("dev-2", "a two", "b two", "y"),
    ]


def test_columns_are_found_by_position_without_a_header_row(write):
    path = write("gj04\t1\t\tA text.\nbc01\t0\t*\tAnother.\n")
    assert read_examples(path, NUMBERED, "train") == [
        Example("train-0", "A text.", None, "1"),
        Example("train-1", "Another.", None, "0"),
    ]


def test_names_of_unread_columns_do_not_matter(write):
    path = write("first\tlabel\tyear\tyear\t odd \nalone\tx\t1\t2\t3\n")
    assert read_examples(path, NAMED, "dev") == [Example("dev-1", "alone", None, "x")]


def test_header_row_repeated_by_joining_two_files_is_refused(write):
    path = write("first\tlabel\none\tx\nfirst\tlabel\ntwo\ty\n")
    with pytest.raises(InputError, match=r"rows.tsv, line 3: repeats the header row"):
        read_examples(path, NAMED, "train")


def test_id_column_gives_the_guid(write):
    path = write("index\ttext\n17\tseventeenth\n")
    columns = Columns(guid="index", text_a="text")
    assert read_examples(path, columns, "test") == [Example("17", "seventeenth")]


def test_quotes_have_no_meaning(write):
    path = write('label\tfirst\nx\t"An open quote\ny\tsays "it"\n')
    texts = [example.text_a for example in read_examples(path, NAMED, "dev")]
    assert texts == ['"An open quote', 'says "it"']


def test_crlf_line_ends_are_accepted(write):
    plain = read_examples(write("label\tfirst\nx\té one\ny\ttwo"), NAMED, "dev")
    windows = write(b"\xef\xbb\xbflabel\tfirst\r\nx\t\xc3\xa9 one\r\ny\ttwo\r\n")
    assert read_examples(windows, NAMED, "dev") == plain


def test_blank_lines_are_skipped_but_counted(write):
    path = write("\nlabel\tfirst\n\nx\tone\n\n")
    assert read_examples(path, NAMED, "dev") == [Example("dev-3", "one", None, "x")]


def test_space_around_a_label_is_removed(write):
    path = write("label\tfirst\nx \t one \n")
    assert read_examples(path, NAMED, "dev", labels=["x"]) == [Example("dev-1", " one ", None, "x")]


def test_second_text_may_be_empty(write):
    path = write("label\tfirst\tsecond\nx\tone\t\n")
    assert read_examples(path, PAIRS, "dev") == [Example("dev-1", "one", "", "x")]


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("", NAMED, r"rows.tsv: holds no rows$"),
        ("\n\n", NUMBERED, r"rows.tsv: holds no rows$"),
        ("label\tfirst\n", NAMED, r"rows.tsv: holds no rows after the header row$"),
        (
            "label\ttext\nx\tone\n",
            NAMED,
            r"rows.tsv: no column 'first', but 'label', 'text'; expected a header row with 'first', "
            r"'label'$",
        ),
        (
            "label\tfirst\tlabel\nx\tone\ty\n",
            NAMED,
            r"rows.tsv: received 2 columns 'label', expected one$",
        ),
        (
            "label\tfirst\rx\tone\ry\ttwo\r",
            NAMED,
            r"rows.tsv, line 1: received lines that end in \\r; expected \\n or \\r\\n$",
        ),
        (
            "a\t1\t\tone\rb\t0\t\ttwo\r",
            NUMBERED,
            r"rows.tsv, line 1: received lines that end in \\r",
        ),
        (
            "label\tfirst\nx\tone\ny\n",
            NAMED,
            r"rows.tsv, line 3: columns: received 1, expected 2 as in the first line",
        ),
        (
            "label\tfirst\nx\tone\twith a tab\n",
            NAMED,
            r"rows.tsv, line 2: columns: received 3, expected 2 as in the first line; "
            r"a separator cannot be in a text$",
        ),
        ("1\tone\n", NUMBERED, r"rows.tsv, line 1: columns: received 2, expected 4 or more$"),
        ("label\tfirst\nx\t  \n", NAMED, r"rows.tsv, line 2: the text is empty$"),
        ("label\tfirst\nx\tone\n \ttwo\n", NAMED, r"rows.tsv, line 3: the label is empty$"),
        (
            "label\tfirst\nx\tone\nz\ttwo\n",
            NAMED,
            r"rows.tsv, line 3: unknown label 'z'; expected 'x', 'y'$",
        ),
        (b"label\tfirst\nx\tcaf\xe9\n", NAMED, r"rows.tsv, line 2: byte 6 is 0xe9, .*not UTF-8"),
    ],
)
def test_errors_name_file_line_received_and_expected(write, content, columns, message):
    with pytest.raises(InputError, match=message):
        read_examples(write(content), columns, "dev", labels=["x", "y"])


def test_long_lists_and_names_are_shortened_in_messages(write):
    labels = [f"label {number:04d}" for number in range(3000)]
    path = write(f"label\tfirst\n{'very ' * 200_000}\tone\n")
    with pytest.raises(InputError, match=r"'label 0009' and 2990 more$") as error:
        read_examples(path, NAMED, "dev", labels)
    assert len(str(error.value)) < 500
