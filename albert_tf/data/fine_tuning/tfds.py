"""Reads the examples of the same tasks from TensorFlow Datasets.

Its records are shuffled. They are put back into the order of the original files, in which the
leaderboards expect them. Ids are row numbers, as in the original's test files. Labels are numbers.
Their names are the original's labels for some tasks, but not for those whose labels are 0 and 1.
"""

import contextlib
import glob
import logging
import os
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf import files
from albert_tf.data.fine_tuning.cells import decode
from albert_tf.data.fine_tuning.examples import Columns, Example, check_label, first_text
from albert_tf.data.fine_tuning.race import examples_of_article, natural_key
from albert_tf.data.fine_tuning.task_table import Task
from albert_tf.errors import InputError, name_place
from albert_tf.extras import check_extra

# With pauses of 0, 0.4, 0.8 and 1.6 seconds.
_DOWNLOAD_RETRIES = 4


def read_tfds(task: Task, split: str, set_name: str, data_dir: str | None) -> list[Example]:
    """Reads one set of a task in the original order; downloads it first if necessary."""
    source = task.tfds
    assert source is not None, "the options refuse other tasks"
    builder_split = source.dev if split == "dev" else split
    name = f"{builder_split}_{set_name}" if set_name else builder_split
    examples = []
    for builder in source.builders:
        dataset, features = load_dataset(builder, name, data_dir)
        found = []
        for number, record in enumerate(dataset):
            place = f"{builder}, {name}, record {number}"
            if source.columns is None:
                article = {"id": record.pop("example_id"), **record}
                level = builder.partition("/")[2]
                found += examples_of_article(place, article, task.labels, split, level)
            else:
                found.append(_example(place, record, task, source.columns, features, split))
        examples += sorted(found, key=lambda example: natural_key(example.guid))
    return examples


def load_dataset(
    builder: str, split: str, data_dir: str | None
) -> tuple[Iterator[dict[str, Any]], Any]:
    """Returns decoded records of a split and their features; by default of `~/tensorflow_datasets`."""
    with name_place(f"'{builder}'"):
        check_extra("tfds", "tensorflow_datasets", "importlib_resources")
    import tensorflow_datasets as tfds

    # It warns at each attempt, and draws bars; the user needs only the final error.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    if not sys.stderr.isatty():
        tfds.disable_progress_bar()
    downloads = os.path.join(data_dir or tfds.core.constants.DATA_DIR, "downloads")
    with _explain(builder), _fail_soon(downloads):
        dataset, info = tfds.load(
            builder,
            split=split,
            data_dir=data_dir,
            with_info=True,
            download_and_prepare_kwargs={"download_dir": downloads},
        )

    def records() -> Iterator[dict[str, Any]]:
        with _explain(builder):
            yield from map(decode, tfds.as_numpy(dataset))

    return records(), info.features


@contextlib.contextmanager
def _fail_soon(downloads: str) -> Iterator[None]:
    """Limits the retries of a download, and removes the partial files of one that fails.

    TensorFlow Datasets has no option for either. Its ten attempts take four minutes without a network.
    """
    from tensorflow_datasets.core.download import downloader

    retries, downloader.MAX_RETRIES = downloader.MAX_RETRIES, _DOWNLOAD_RETRIES
    pattern = os.path.join(glob.escape(downloads), "**", "*.tmp.*")
    before = set(glob.glob(pattern, recursive=True))
    try:
        yield
    except BaseException:
        for path in set(glob.glob(pattern, recursive=True)) - before:
            files.remove(path)
        raise
    finally:
        downloader.MAX_RETRIES = retries


@contextlib.contextmanager
def _explain(builder: str) -> Iterator[None]:
    try:
        yield
    # Any error of the network, the file system or the package.
    except Exception as error:
        request = getattr(error, "request", None)
        if isinstance(error, OSError) and request is not None:
            reason = f"no connection to {urllib.parse.urlsplit(request.url).netloc}"
        else:
            reason = files.reason(error) or type(error).__name__
        raise InputError(f"'{builder}' can be neither read nor downloaded: {reason}") from error


def _example(
    place: str, record: Mapping, task: Task, columns: Columns, features: Any, split: str
) -> Example:
    label = None
    if split != "test":
        label = str(record[columns.label])
        names = [
            columns.spellings.get(name, name)
            for name in getattr(features[columns.label], "names", ())
        ]
        if isinstance(task.labels, tuple) and set(names) == set(task.labels):
            label = names[record[columns.label]]
        check_label(place, label, task.labels)
    return Example(
        guid=str(record[columns.guid]),
        text_a=first_text([record[name] for name in (*columns.prefixes, columns.text_a)]),
        text_b=None if columns.text_b is None else record[columns.text_b],
        label=label,
    )
