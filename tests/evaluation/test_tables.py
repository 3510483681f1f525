from albert_tf.evaluation.tables import confusion_matrix, to_tsv


def test_confusion_matrix_has_a_row_for_each_true_label():
    matrix = confusion_matrix(("a", "b", "c"), [0, 0, 1, 1, 1], [0, 2, 1, 1, 0])
    assert matrix == "label\ta\tb\tc\na\t1\t0\t1\nb\t1\t2\t0\nc\t0\t0\t0\n"


def test_nine_digits_give_the_same_float32_back():
    assert to_tsv([{"x": 1 / 3, "y": 2, "z": "a"}]) == "x\ty\tz\n0.333333333\t2\ta\n"
