"""The records of a pre-training run: which files, in which order, with or without masks."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import tensorflow as tf

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining.batches import Mask
from albert_tf.data.pretraining.graph_masking import DynamicMasker, find_vocabulary_fault
from albert_tf.data.pretraining.masking import MaskingConfig
from albert_tf.data.pretraining.record_index import RecordIndex, index_records, load_index
from albert_tf.data.pretraining.record_order import IndexedOrder, RecordOrder, StreamedOrder
from albert_tf.data.pretraining.statistics import stats_file_of
from albert_tf.data.record_files import (
    RecordFiles,
    ScannedFile,
    check_records,
    explain_bad_records,
    find_compression,
    is_unmasked,
    scan_files,
)
from albert_tf.data.record_spec import RecordSpec, pretraining_record, unmasked_record
from albert_tf.errors import InputError, name_place
from albert_tf.options import option, select
from albert_tf.tasks.flags import check_vocab_size, load_tokenizer
from albert_tf.tasks.training_options import TrainingOptions
from albert_tf.tokenization import Tokenizer, WordStartRule

_BAD_RECORDS_FILE = "bad_records.txt"
_INDEX_FILE = "record_index.npz"

# A key next to the run options. Runs without it began when all orders were streamed.
_ORDER = "record_order"
OrderName = Literal["indexed", "streamed"]

# Number of bad records that have a line of their own on the screen.
_MAX_SHOWN = 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordOptions(TrainingOptions, MaskingConfig):
    """The options of a run that reads records.

    The options of masking and the vocabulary are for unmasked records.
    """

    input_file: tuple[str, ...] = option(
        "TFRecord files or glob patterns to train on, comma-separated.", ()
    )
    eval_input_file: tuple[str, ...] = option(
        "TFRecord files or glob patterns to evaluate on, comma-separated.", ()
    )
    spm_model_file: str | None = option("SentencePiece model, for unmasked records.", None)
    vocab_file: str | None = option("WordPiece vocabulary, for unmasked records.", None)
    on_bad_record: Literal["error", "skip"] = option(
        "What to do with records that are damaged or do not match the flags. error: stop at the first. "
        "skip: read all records once before the start and leave out the bad ones.",
        "error",
    )
    shuffle_buffer: int = option(
        "Number of records that are shuffled together in memory.", 10000, least=1
    )


class Records(NamedTuple):
    """Record files with the same kind of records.

    Attributes:
        files: the files, and their bad records.
        spec: specification of the records.
        mask: masks a batch; None if the records have masks.
        vocabulary_sha256: SHA-256 of the records' vocabulary; None if no stats file has it.
        index: index of the records; None if they are streamed.
    """

    files: RecordFiles
    spec: RecordSpec
    mask: Mask | None
    vocabulary_sha256: str | None
    index: RecordIndex | None

    @property
    def noted(self) -> dict[str, OrderName]:
        """What a run has to write next to its options, to be resumed with the same batches."""
        return {_ORDER: "streamed" if self.index is None else "indexed"}

    def save_index(self, options: RecordOptions) -> None:
        """Writes the index, if there is one, to the output folder for a resumed run."""
        if self.index is not None:
            self.index.save(os.path.join(options.output_dir, _INDEX_FILE))

    def order(self, options: RecordOptions) -> RecordOrder:
        """Returns the order of the records in the training."""
        settings = options.train_batch_size, options.shuffle_buffer, options.random_seed
        if self.index is None:
            return StreamedOrder(self.files, *settings)
        return IndexedOrder(self.index, *settings)


def find_order(started_with: Mapping[str, Any] | None) -> OrderName | None:
    """Returns the order of a run's records, given the options that it began with, if it has begun."""
    return None if started_with is None else started_with.get(_ORDER, "streamed")


def open_records(
    options: RecordOptions, config: AlbertConfig, flag: str, order: OrderName | None
) -> Records:
    """Finds and checks the files of a flag, and detects whether their records have masks.

    Args:
        options: options of the run.
        config: config of the model.
        flag: `input_file` or `eval_input_file`.
        order: whether to index the records. None to index them unless a file is compressed.

    Raises:
        InputError: no file matches, there are records with and without masks or of another vocabulary, or
            a record does not match the options; with `--on_bad_record=skip`, if no record matches. With
            an index, also if a record is damaged.
    """
    with name_place(f"--{flag}"):
        paths = files.expand_globs(getattr(options, flag))
    tokenizer = None
    if options.spm_model_file or options.vocab_file:
        # Nothing is tokenized, so lower-casing does not matter.
        tokenizer = load_tokenizer(options.spm_model_file, options.vocab_file, lower_case=True)
        check_vocab_size(tokenizer, config, options.albert_config_file)
    with name_place(f"--{flag}"):
        sha256 = _read_stats(paths, tokenizer, options, config)
    order = order or _default_order(paths, flag)
    if not _are_unmasked(paths, flag, skips=options.on_bad_record == "skip"):
        masked = pretraining_record(
            options.max_seq_length, options.max_predictions_per_seq, config.vocab_size
        )
        record_files, index = _check(paths, masked, options, flag, order)
        return Records(record_files, masked, None, sha256, index)
    if tokenizer is None:
        raise InputError(
            f"--{flag}: {paths[0]} holds records without masks; expected --spm_model_file or "
            "--vocab_file, their vocabulary"
        )
    unmasked = unmasked_record(options.max_seq_length, config.vocab_size)
    record_files, index = _check(paths, unmasked, options, flag, order)
    _check_vocabulary(record_files, unmasked, options)
    masker = DynamicMasker(tokenizer, select(options, MaskingConfig))
    return Records(record_files, unmasked, masker, sha256, index)


def check_same_vocabulary(train: Records, evaluation: Records) -> None:
    """Checks that two sets of records have the same vocabulary, if their stats files name it.

    Raises:
        InputError: they have different vocabularies.
    """
    received = {train.vocabulary_sha256, evaluation.vocabulary_sha256} - {None}
    if len(received) > 1:
        raise InputError(
            f"--eval_input_file: {evaluation.files.paths[0]} and {train.files.paths[0]} were made with "
            "different vocabularies according to their stats files; expected the same one"
        )


def _read_stats(
    paths: Sequence[str],
    tokenizer: Tokenizer | None,
    options: RecordOptions,
    config: AlbertConfig,
) -> str | None:
    """Checks the vocabulary that the records' stats files name, and returns its SHA-256.

    Records without stats file, like the original's, pass, as well as stats without vocabulary.
    """
    expected = tokenizer and tokenizer.vocabulary_sha256
    source = tokenizer and tokenizer.vocabulary_file
    for path in dict.fromkeys(map(stats_file_of, paths)):
        stats = files.read_json(path) if tf.io.gfile.exists(path) else None
        if not isinstance(stats, dict):
            continue
        size = stats.get("vocab_size", config.vocab_size)
        if size != config.vocab_size:
            raise InputError(
                f"{path}: the records were made with a vocabulary of {size} pieces, but "
                f"{options.albert_config_file} says vocab_size {config.vocab_size}"
            )
        sha256 = stats.get("vocabulary_sha256", expected)
        if expected not in (None, sha256):
            raise InputError(
                f"{path}: the records were made with another vocabulary than {source}: SHA-256 "
                f"{sha256}, expected {expected}"
            )
        expected, source = sha256, source or path
    return expected


def _are_unmasked(paths: Sequence[str], flag: str, skips: bool) -> bool:
    """Returns whether the first good records of the files have no masks."""
    kinds: dict[bool | None, str] = {}
    for path in paths:
        try:
            kinds[is_unmasked(path, limit=None if skips else 1)] = path
        except InputError:
            if not skips:
                raise
    if kinds.keys() >= {True, False}:
        raise InputError(
            f"--{flag}: {kinds[True]} holds records without masks, {kinds[False]} records with "
            "masks; expected records of one kind"
        )
    return True in kinds


def _default_order(paths: Sequence[str], flag: str) -> OrderName:
    for path in paths:
        if find_compression(path) != "none":
            print(
                f"--{flag}: {path} is compressed, so a resumed run will read the records of all earlier "
                "batches again"
            )
            return "streamed"
    return "indexed"


def _check(
    paths: Sequence[str], spec: RecordSpec, options: RecordOptions, flag: str, order: OrderName
) -> tuple[RecordFiles, RecordIndex | None]:
    """Checks the first record of each file, or all of them to leave out the bad ones."""
    skips = options.on_bad_record == "skip"
    if not skips:
        for path in paths:
            check_records(path, spec)
    if not paths or (order == "streamed" and not skips):
        return RecordFiles(paths), None
    index = (
        _open_index(paths, spec if skips else None, options, flag) if order == "indexed" else None
    )
    description = f"looking for bad records in --{flag}"
    scanned = index.scanned if index else scan_files(paths, spec, description)
    record_files = RecordFiles.without_bad(paths, scanned)
    if skips:
        _report_bad(record_files, scanned, flag)
    return record_files, index


def _open_index(
    paths: Sequence[str], spec: RecordSpec | None, options: RecordOptions, flag: str
) -> RecordIndex:
    """Returns the index in the run's folder, or a new one."""
    index = load_index(os.path.join(options.output_dir, _INDEX_FILE), paths, spec)
    return index or index_records(paths, spec, f"indexing --{flag}")


def _report_bad(record_files: RecordFiles, scanned: Sequence[ScannedFile], flag: str) -> None:
    bad = record_files.bad
    lines = [f"{path}, {fault}" for path, of_file in bad.items() for fault in of_file.describe()]
    good_count = sum(file.bad.good_count for file in scanned)
    if not good_count:
        raise InputError(
            f"--{flag}: no record can be used: {lines[0] if lines else 'the files are empty'}"
        )
    for line in lines[:_MAX_SHOWN]:
        print(f"warning: {line}; left out", file=sys.stderr)
    bad_count = sum(len(of_file.faults) for of_file in bad.values())
    damaged_count = sum(of_file.is_damaged for of_file in bad.values())
    print(
        f"--{flag}: leaving out {bad_count} bad records and the rest of {damaged_count} damaged files; "
        f"using {good_count} records"
    )


def write_bad_records(options: RecordOptions, records: Iterable[Records]) -> None:
    """Writes `bad_records.txt`, with one line per bad record, if there are any."""
    lines = [
        f"{path}, {fault}\n"
        for each in records
        for path, bad in each.files.bad.items()
        for fault in bad.describe()
    ]
    if lines:
        files.make_directory(options.output_dir)
        files.write_text(os.path.join(options.output_dir, _BAD_RECORDS_FILE), "".join(lines))


def explain_mistakes(
    options: RecordOptions, records: Records
) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which an error about a bad record names it."""
    # With skip, all bad records are known already.
    paths = records.files.paths if options.on_bad_record == "error" else ()
    return explain_bad_records(paths, records.spec)


def _check_vocabulary(record_files: RecordFiles, spec: RecordSpec, options: RecordOptions) -> None:
    """Checks the first record of each file, if there is one."""
    tokenizers = [  # the records may have been made with any --word_start
        load_tokenizer(options.spm_model_file, options.vocab_file, True, word_start_rule)
        for word_start_rule in get_args(WordStartRule)
    ]
    for path in record_files.paths:
        first = dataclasses.replace(record_files, paths=[path]).as_dataset()
        for serialized in first.flat_map(record_files.read).take(1):
            record = {name: tensor.numpy() for name, tensor in spec.parse(serialized).items()}
            faults = [find_vocabulary_fault(record, tokenizer) for tokenizer in tokenizers]
            if all(faults):
                raise InputError(
                    f"{path}, record 1: {faults[0]}; expected the vocabulary of the records"
                )
