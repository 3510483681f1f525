"""Files without quotes, as GLUE's are, become examples, and every mistake names file and line."""

import pytest

from albert_tf.data.fine_tuning.examples import (
    Columns,
    Example,
    hold_out,
    make_examples,
    read_glue_table,
)
from tests.helpers import refused

NAMED = Columns(label="label", text_a="first")
PAIRS = Columns(label="label", text_a="first", text_b="second")
NUMBERED = Columns(label=1, text_a=3)


def read_examples(path, columns, split, labels):
    return make_examples(read_glue_table(path, columns), columns, split, labels)


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes) -> str:
        path = tmp_path / "rows.tsv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.mark.parametrize(
    ("content", "columns", "examples"),
    [
        # By name, in any order, among others whose names do not matter.
        ("second\ty\tlabel\tfirst\ty\t odd \nb\t9\tx\ta\t1\t\n", PAIRS, [("dev-1", "a", "b", "x")]),
        # By position, without a header row.
        (
            "gj04\t1\t\tA text.\nbc01\t0\t*\tAnother.\n",
            NUMBERED,
            [("dev-0", "A text.", None, "1"), ("dev-1", "Another.", None, "0")],
        ),
        # With ids.
        ("index\ttext\n17\tone\n", Columns(guid="index", text_a="text"), [("17", "one")]),
        # Quotes have no meaning.
        (
            'label\tfirst\nx\t"An open quote\ny\tsays "it"\n',
            NAMED,
            [("dev-1", '"An open quote', None, "x"), ("dev-2", 'says "it"', None, "y")],
        ),
        # A byte-order mark, line ends of Windows, and blank lines, which are counted.
        (
            b"\xef\xbb\xbf\r\nlabel\tfirst\r\n\nx\t\xc3\xa9 one\r\n\ny\ttwo",
            NAMED,
            [("dev-3", "é one", None, "x"), ("dev-5", "two", None, "y")],
        ),
        # Space around a label.
        ("label\tfirst\nx \t one \n", NAMED, [("dev-1", " one ", None, "x")]),
        # An empty second text.
        ("label\tfirst\tsecond\nx\tone\t\n", PAIRS, [("dev-1", "one", "", "x")]),
    ],
)
def test_rows_become_examples(write, content, columns, examples):
    received = read_examples(write(content), columns, "dev", labels=["x", "y", "0", "1"])
    assert received == [Example(*example) for example in examples]


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("\n\n", NUMBERED, ": holds no rows$"),
        ("label\ttext\nx\tone\n", NAMED, ": no column 'first', but 'label', 'text'; expected a header"),
        ("label\tfirst\tlabel\nx\tone\ty\n", NAMED, ": received 2 columns 'label', expected one$"),
        ("label\tfirst\rx\tone\r", NAMED, r", line 1: received lines that end in \\r; expected \\n"),
        ("label\tfirst\nx\tone\ny\n", NAMED, ", line 3: columns: received 1, expected 2 as in the f"),
        ("label\tfirst\nx\ta\tb\n", NAMED, ", line 2: columns: received 3, .* cannot be in a text$"),
        ("1\tone\n", NUMBERED, ", line 1: columns: received 2, expected 4 or more$"),
        ("label\tfirst\nx\t  \n", NAMED, ", line 2: the text is empty$"),
        ("label\tfirst\nx\tone\n \ttwo\n", NAMED, ", line 3: the label is empty$"),
        ("label\tfirst\nx\tone\nz\ttwo\n", NAMED, ", line 3: unknown label 'z'; expected 'x', 'y'$"),
        (b"label\tfirst\nx\tcaf\xe9\n", NAMED, ", line 2: byte 6 is 0xe9, .*not UTF-8"),
    ],
)  # fmt: skip
def test_errors_name_file_line_received_and_expected(write, content, columns, message):
    with refused(f"rows.tsv{message}"):
        read_examples(write(content), columns, "dev", labels=["x", "y"])


def test_rows_without_a_text_are_left_out_of_a_training_set(write, capsys):
    path = write("label\tfirst\nx\tone\ny\t \nx\ttwo\ny\t\n")
    examples = read_examples(path, NAMED, "train", labels=["x", "y"])
    assert [(example.guid, example.text_a) for example in examples] == [
        ("train-1", "one"),
        ("train-3", "two"),
    ]
    assert "rows.tsv, line 3: the text is empty; left out: 2 of 4 rows" in capsys.readouterr().err
    with refused(r"line 2: the text is empty$"):
        read_examples(write("label\tfirst\nx\t \n"), NAMED, "train", labels=["x", "y"])


@pytest.mark.parametrize(("rare", "count"), [(4, 10), (40, 14)])
def test_rare_labels_are_held_out_together(rare, count):
    labels = [*["often"] * 100, *(f"rare {number}" for number in range(rare))]
    train, dev = hold_out([Example("", "", label=label) for label in labels], 0.1, 0, True)
    assert (len(train), len(dev)) == (len(labels) - count, count)
    assert sum(example.label == "often" for example in dev) == 10


def test_most_rows_keep_their_place_when_others_are_added():
    def dev_set(rows, seed=3):
        return {example.guid for example in hold_out(rows, 0.1, seed, True)[1]}

    rows = [Example(str(row), f"text {row % 900}", label="x") for row in range(1000)]
    dev = dev_set(rows)
    assert len(dev & dev_set([*rows, *rows[:100]])) > 90
    assert len(dev & dev_set(rows, seed=4)) < 30


def test_long_lists_and_names_are_shortened_in_messages(write):
    labels = [f"label {number:04d}" for number in range(3000)]
    path = write(f"label\tfirst\n{'very ' * 200_000}\tone\n")
    with refused(r"'label 0009' and 2990 more$") as error:
        read_examples(path, NAMED, "dev", labels)
    assert len(str(error.value)) < 500
