import pytest

from albert_tf.data.fine_tuning import own_files
from albert_tf.data.fine_tuning.own_files import collect_labels, complete_task
from albert_tf.data.fine_tuning.tsv import Example, LabelSets, Scores, Table
from albert_tf.errors import InputError

CLASSES = complete_task("classification", None)


def recognise_task(path, label_type):
    return own_files.recognise_task(Table.read(str(path)), label_type)


def read_own(path, split, task):
    return own_files.read_own(Table.read(str(path)), split, task)


def test_own_files(tmp_path):
    train, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    train.write_text("text_a\tsource\tlabel\nA pear.\tus\tno\nA plum!\tyou\tyes\nFig?\tus\tno\n")
    test.write_text("text_b\ttext_a\nsecond\tfirst\n")
    assert recognise_task(train, "string") == CLASSES
    examples = read_own(train, "train", CLASSES)
    assert examples[1] == Example("train-2", "A plum!", None, "yes")
    labels = collect_labels(examples, train, "classification")
    assert labels == ("no", "yes")
    task = complete_task("classification", labels)
    assert read_own(test, "test", task) == [Example("test-1", "first", "second")]


def test_own_test_file_may_have_labels(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("text_a\tlabel\nfirst\tno\n")
    assert read_own(path, "test", CLASSES)[0].label == "no"


@pytest.mark.parametrize("split", ["train", "dev"])
def test_own_training_and_dev_files_need_labels(tmp_path, split):
    path = tmp_path / "rows.tsv"
    path.write_text("text_a\ttext_b\nfirst\tsecond\n")
    with pytest.raises(InputError, match=r"rows.tsv, line 1: no column 'label' in the header row"):
        read_own(path, split, CLASSES)


def test_single_class_is_refused():
    examples = [Example(f"train-{row}", "text", None, "same") for row in range(3)]
    with pytest.raises(InputError, match=r"^rows.tsv: every row has the label 'same'"):
        collect_labels(examples, "rows.tsv", "classification")


def test_scores(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("label\ttext_a\n-1.5\tfirst\n2e3\tsecond\n")
    task = recognise_task(path, "float")
    assert (task.kind, task.labels, task.metrics) == (
        *("regression", Scores(), ("pearson", "spearman")),
    )
    assert [example.label for example in read_own(path, "train", task)] == ["-1.5", "2e3"]
    path.write_text("label\ttext_a\n1e39\tfirst\n")
    with pytest.raises(InputError, match=r"line 2: label 1e39; expected a number from -1e\+18 to"):
        read_own(path, "train", task)
    path.write_text("label\ttext_a\nnan\tfirst\n")
    with pytest.raises(InputError, match=r"train.tsv, line 2: label 'nan'; expected a number$"):
        read_own(path, "train", task)


def test_sets_of_labels(tmp_path):
    train, dev, test = (tmp_path / f"{split}.tsv" for split in ("train", "dev", "test"))
    train.write_text("label\ttext_a\nb|a\tfirst\nc\tsecond\n")
    task = recognise_task(train, "set")
    assert (task.kind, task.labels) == ("multi_label", LabelSets())
    examples = read_own(train, "train", task)
    assert [example.label for example in examples] == ["b|a", "c"]
    labels = collect_labels(examples, train, "multi_label")
    assert labels == LabelSets(("a", "b", "c"))
    task = complete_task("multi_label", labels)

    # Columns in another order, and a row without a label.
    dev.write_text("label_c\tlabel_a\ttext_a\tlabel_b\n1\t0\tfirst\t1\n0\t0\tsecond\t0\n")
    examples = read_own(dev, "dev", task)
    assert [example.label for example in examples] == ["b|c", ""]
    test.write_text("text_a\nfirst\n")
    assert read_own(test, "test", task)[0].label is None


def test_columns_of_labels(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("text_a\tlabel_z\tlabel_a\nfirst\t0\t1\n")
    for label_type in ("string", "set"):
        task = recognise_task(path, label_type)
        assert (task.kind, task.labels) == ("multi_label", LabelSets(("z", "a")))
    # Beside a column of all labels they are columns like any other.
    path.write_text("text_a\tlabel_source\tlabel\nfirst\tus\tyes\n")
    assert recognise_task(path, "string") == CLASSES


def write_choices(path, *rows, letters="abc"):
    header = ["label", "text_a", "text_b", *(f"choice_{letter}" for letter in letters)]
    path.write_text("\n".join("\t".join(row) for row in [header, *rows]) + "\n")
    return str(path)


def test_multiple_choice(tmp_path):
    path = write_choices(tmp_path / "train.tsv", ("C", "A story.", "Who?", "Ann", "Bob", "Cleo"))
    task = recognise_task(path, "string")
    assert (task.kind, task.labels) == ("multiple_choice", ("A", "B", "C"))
    assert read_own(path, "train", task) == [
        Example("train-1", "A story.", "Who?", "C", ("Ann", "Bob", "Cleo"))
    ]


@pytest.mark.parametrize(
    ("row", "letters", "message"),
    [
        (
            ("D", "A", "B", "x", "y", "z"),
            "abc",
            r"line 2: unknown label 'D'; expected 'A', 'B', 'C'",
        ),
        (("A", "A", "B", "x", "", "z"), "abc", r"line 2: the choice_b is empty"),
        (("A", "A", "B", "x"), "a", r"has choice_a; expected choice_a, choice_b and so on"),
        (("A", "A", "B", "x", "y"), "ac", r"has choice_a, choice_c; expected choice_a, choice_b"),
        (
            ("A", "A", "B", *"xyzv"),
            "abcd",
            r"dev.tsv: has 4 choices; the training file has 3",
        ),
        (("A", "A", "B", "x", "y"), "ab", r"no column 'choice_c' in the header row"),
    ],
)
def test_mistakes_in_multiple_choice(tmp_path, row, letters, message):
    path = write_choices(tmp_path / "dev.tsv", row, letters=letters)
    with pytest.raises(InputError, match=message):
        read_own(path, "dev", complete_task("multiple_choice", ("A", "B", "C")))


def test_scores_of_choices_are_refused(tmp_path):
    path = write_choices(tmp_path / "train.tsv", ("A", "A story.", "Who?", "x", "y", "z"))
    with pytest.raises(InputError, match=r"has the column 'choice_a'; .* is a letter, not a score"):
        recognise_task(path, "float")
