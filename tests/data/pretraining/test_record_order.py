"""Records come in an order that the seed decides, and from which any batch can be read."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.pretraining.record_index import index_records, load_index
from albert_tf.data.pretraining.record_order import IndexedOrder, StreamedOrder
from albert_tf.data.record_files import RecordFiles
from albert_tf.data.record_spec import Feature, RecordSpec
from albert_tf.errors import InputError

# More than a page, less than a page, and an exact number of pages.
SIZES = {"a": 203, "b": 5, "c": 128}
TOTAL = sum(SIZES.values())
SPEC = RecordSpec((Feature("file", (1,)), Feature("number", (1,))))


def write(path, size):
    """Writes records that contain their names, and have different lengths."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(1, size + 1):
            name = np.array([ord(path.name)]), np.array([number**3])
            writer.write(SPEC.serialize(dict(zip(("file", "number"), name, strict=True))))


@pytest.fixture
def paths(tmp_path):
    for name, size in SIZES.items():
        write(tmp_path / name, size)
    return [str(tmp_path / name) for name in SIZES]


@pytest.fixture(params=["indexed", "streamed"])
def make_order(request, paths):
    def make(batch_size=16, shuffle_buffer=100, seed=5):
        if request.param == "indexed":
            return IndexedOrder(index_records(paths), batch_size, shuffle_buffer, seed)
        return StreamedOrder(RecordFiles(paths), batch_size, shuffle_buffer, seed)

    return make


def take(order, count, start=0):
    """Returns the names in the records of some batches, (count, B)."""
    batches = order.batches(start).take(count).map(SPEC.parse)
    return [
        [
            f"{chr(file)} {round(number ** (1 / 3))}"
            for file, number in zip(batch["file"].ravel(), batch["number"].ravel(), strict=True)
        ]
        for batch in batches.as_numpy_iterator()
    ]


def flat(by_file):
    return sorted(f"{path[-1]} {number}" for path, numbers in by_file.items() for number in numbers)


ALL = sorted(f"{name} {number}" for name, size in SIZES.items() for number in range(1, size + 1))


def test_holds_each_record_once_an_epoch(make_order):
    records = list(itertools.chain(*take(make_order(), TOTAL)))
    epochs = [records[start : start + TOTAL] for start in range(0, 16 * TOTAL, TOTAL)]
    assert all(sorted(epoch) == ALL for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 16


def test_depends_on_the_seed(make_order):
    first, again, other = (take(make_order(seed=seed), 30) for seed in (5, 5, 6))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("batch_size", "starts"),
    [
        # In the first window and the second, at the end of the first epoch of 21 batches, in the third.
        (16, (5, 6, 20, 47)),
        (1000, (1, 4)),  # more than an epoch
    ],
)
def test_starts_at_any_batch(make_order, batch_size, starts):
    order = make_order(batch_size)
    whole = take(order, starts[-1] + 2)
    for start in starts:
        assert take(order, 2, start) == whole[start : start + 2]


def test_names_exactly_the_records_of_the_batch(make_order):
    order = make_order()
    batches = take(order, 45)  # more than two passes over the files
    assert {number: flat(by_file) for number, by_file in order.names([3, 21, 44]).items()} == {
        number: sorted(batches[number]) for number in (3, 21, 44)
    }


def test_windows_mix_files_and_distant_pages(paths):
    order = IndexedOrder(index_records(paths), 16, TOTAL, 5)
    first = take(order, 1)[0]
    assert {name[0] for name in first} >= {"a", "c"}
    numbers = [int(name[2:]) for name in first if name[0] == "a"]
    assert max(numbers) - min(numbers) > 100


def write_numbers(tmp_path, compressions=("", "", "")):
    """Writes files of 23, 5 and 13 records: 0, 1, ..., 40."""
    paths, number = [], itertools.count()
    for index, (size, compression) in enumerate(zip((23, 5, 13), compressions, strict=True)):
        paths.append(str(tmp_path / f"{index}.tfrecord"))
        with tf.io.TFRecordWriter(paths[-1], compression) as writer:
            for _ in range(size):
                writer.write(str(next(number)).encode())
    return paths


def test_orders_are_those_of_runs_that_have_begun(tmp_path):
    """The numbers are what the first versions of the orders gave."""
    files = RecordFiles(write_numbers(tmp_path, ("", "GZIP", "")))  # both kinds are read together
    (batch,) = StreamedOrder(files, 4, 10, 5).batches(21).take(1).as_numpy_iterator()
    assert batch.astype(int).tolist() == [28, 25, 24, 0]
    index = index_records(write_numbers(tmp_path))
    (batch,) = IndexedOrder(index, 4, 10, 5).batches(21).take(1).as_numpy_iterator()
    assert batch.astype(int).tolist() == [29, 33, 32, 31]


def test_compressed_files_have_no_index(tmp_path):
    with pytest.raises(InputError, match=r"1\.tfrecord: compressed; expected uncompressed records"):
        index_records(write_numbers(tmp_path, ("", "GZIP", "")))


def spoil(paths):
    """Makes records 2 and 65 to 128 of a, all of b, and those of c from 10 on unusable."""
    a, b, c = paths
    for path, numbers in ((a, {2, *range(65, 129)}), (b, set(range(1, 6)))):
        records = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        with tf.io.TFRecordWriter(path) as writer:
            for number, record in enumerate(records, 1):
                writer.write(b"\xff" if number in numbers else record)
    size = sum(
        len(record) + 16 for record in tf.data.TFRecordDataset(c).take(9).as_numpy_iterator()
    )
    with open(c, "r+b") as file:
        file.seek(size + 14)
        file.write(b"\x7f")


@pytest.mark.parametrize("kind", ["indexed", "streamed"])
def test_bad_records_are_in_no_batch_and_have_no_name(paths, kind):
    spoil(paths)
    index = index_records(paths, SPEC)
    files = RecordFiles.without_bad(paths, index.scanned)
    assert list(files.bad) == paths
    kept = {"a": {1, *range(3, 65), *range(129, 204)}, "c": range(1, 10)}
    expected = sorted(f"{name} {number}" for name, numbers in kept.items() for number in numbers)
    source, order_class = index, IndexedOrder
    if kind == "streamed":
        source, order_class = files, StreamedOrder
    order = order_class(source, len(expected), 30, 5)
    for number, batch in enumerate(take(order, 3)):
        assert sorted(batch) == expected
        assert flat(order.names([number])[number]) == expected


def test_damage_is_named_where_nothing_is_left_out(paths):
    spoil(paths)
    with pytest.raises(
        InputError, match=r"c, record 10: damaged or cut short; expected a complete"
    ):
        index_records(paths[2:])


def test_index_is_saved_and_checked_against_the_files(tmp_path, paths, capsys):
    spoil(paths)
    index = index_records(paths, SPEC)
    path = str(tmp_path / "index")
    assert load_index(path, paths, SPEC) is None
    index.save(path)
    loaded = load_index(path, paths, SPEC)
    one, other = (IndexedOrder(each, 10, 30, 5) for each in (index, loaded))
    assert take(one, 40) == take(other, 40)
    assert capsys.readouterr().err == ""

    assert load_index(path, paths[:2], SPEC) is None
    write(tmp_path / "x", 6)
    assert load_index(path, [*paths[:2], str(tmp_path / "x")], SPEC) is None
    assert load_index(path, paths, None) is None
    write(tmp_path / "b", 6)
    assert load_index(path, paths, SPEC) is None
    assert capsys.readouterr().err.splitlines() == [
        f"warning: {path}: {reason}; making it again"
        for reason in (
            "made of other files",
            "made of other files",
            "made with other flags",
            f"{tmp_path / 'b'} has changed",
        )
    ]


@pytest.mark.parametrize("damage", ["empty", "cut", "text"])
def test_damaged_index_is_made_again(tmp_path, paths, damage, capsys):
    path = tmp_path / "index"
    index_records(paths).save(str(path))
    content = path.read_bytes()
    path.write_bytes({"empty": b"", "cut": content[:-100], "text": b"no index"}[damage])
    assert load_index(str(path), paths, None) is None
    assert capsys.readouterr().err == f"warning: {path}: damaged; making it again\n"
