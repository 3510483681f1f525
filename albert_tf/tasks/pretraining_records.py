"""The records of a pre-training run: which files, in which order, with or without masks."""

import contextlib
import dataclasses
import itertools
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import tensorflow as tf

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining.masking import (
    MAX_LENGTH,
    Masker,
    MaskingConfig,
    find_vocabulary_fault,
)
from albert_tf.data.pretraining.record_batches import RecordOrder, read_in_order
from albert_tf.data.pretraining.record_files import (
    RecordFile,
    check_first_record,
    explain_bad_records,
    load_scanned,
    read_sizes,
    save_scanned,
    scan_files,
)
from albert_tf.data.pretraining.statistics import stats_file_of
from albert_tf.data.records import RecordSpec, pretraining_record, unmasked_record
from albert_tf.errors import InputError, name_place
from albert_tf.options import option, select
from albert_tf.tasks.flags import check_vocab_size, load_tokenizer
from albert_tf.tasks.training_options import PAPER_LENGTH, PAPER_PREDICTIONS, TrainingOptions
from albert_tf.tokenization import Tokenizer, WordStartRule

_BAD_RECORDS_FILE = "bad_records.txt"
# Counts and bad records of the files of each flag, so that a resumed run need not read them.
_RECORDS_FILE = "records.json"

# Number of bad records that have a line of their own on the screen.
_MAX_SHOWN = 20

_Options = TypeVar("_Options", bound="RecordOptions")


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
    max_seq_length: int | None = option(
        "Sequence length in tokens, including the special ones. Default: that of the records.",
        None,
        least=5,
    )
    max_predictions_per_seq: int | None = option(
        "Maximum number of pieces to predict per sequence. Default: that of the records; for unmasked "
        "records, --masked_lm_prob of a full sequence.",
        None,
        least=1,
        most=MAX_LENGTH,
    )
    spm_model_file: str | None = option(
        "SentencePiece model. Default: that of the records, if it still is where it was, or of "
        "--init_checkpoint.",
        None,
    )
    vocab_file: str | None = option("WordPiece vocabulary, instead of a SentencePiece model.", None)
    on_bad_record: Literal["error", "skip"] = option(
        "What to do with records that are damaged or do not match the flags. error: stop at the first. "
        "skip: read all records once before the start and leave out the bad ones.",
        "error",
    )
    shuffle_buffer: int = option(
        "Number of records that are shuffled together in memory.", 10000, least=1
    )


def fill_sizes(options: _Options, config: AlbertConfig) -> _Options:
    """Returns the options with the sizes of the records, where the flags don't give them.

    They are those of the first record that has ids; without one, those of the paper's recipe.
    """
    flag = "input_file" if options.input_file else "eval_input_file"
    with name_place(f"--{flag}"):
        paths = files.expand_globs(getattr(options, flag))
    positions = config.max_position_embeddings
    found = _first_sizes(paths, pretraining_record(positions, positions), options)
    sizes = next((sizes for _, sizes in found), {})
    length = options.max_seq_length or sizes.get("input_ids", PAPER_LENGTH)
    if length > positions:
        raise InputError(
            f"--{flag}: the records have {length} tokens; {options.albert_config_file} has "
            f"max_position_embeddings {positions}"
        )
    predictions = PAPER_PREDICTIONS
    if sizes:
        predictions = sizes.get("masked_lm_ids", math.ceil(length * options.masked_lm_prob))
    return dataclasses.replace(
        options,
        max_seq_length=length,
        max_predictions_per_seq=options.max_predictions_per_seq or predictions,
    )


class Records(NamedTuple):
    """Record files with the same kind of records.

    Attributes:
        files: the files, and their bad records.
        spec: specification of the records.
        masker: masks batches; None if the records have masks.
        tokenizer: the tokenizer that made the records; None if its vocabulary is not known.
        vocabulary_sha256: SHA-256 of the records' vocabulary; None if no stats file has it.
    """

    files: Sequence[RecordFile]
    spec: RecordSpec
    masker: Masker | None
    tokenizer: Tokenizer | None
    vocabulary_sha256: str | None

    def order(self, options: RecordOptions) -> RecordOrder:
        """Returns the order of the records in the training."""
        return RecordOrder(
            self.files, options.train_batch_size, options.shuffle_buffer, options.random_seed
        )


def open_records(options: RecordOptions, config: AlbertConfig, flag: str) -> Records:
    """Finds and checks the files of a flag, and detects whether their records have masks."""
    with name_place(f"--{flag}"):
        paths = files.expand_globs(getattr(options, flag))
    stats = _read_stats(paths)
    tokenizer = _load_tokenizer(options, stats)
    if tokenizer:
        check_vocab_size(tokenizer, config, options.albert_config_file)
    with name_place(f"--{flag}"):
        sha256 = _check_stats(stats, tokenizer, options, config)
    masked = pretraining_record(
        options.max_seq_length, options.max_predictions_per_seq, config.vocab_size
    )
    if not _are_unmasked(paths, masked, flag, options):
        return Records(_scan(paths, masked, options, flag), masked, None, tokenizer, sha256)
    if tokenizer is None:
        raise InputError(
            f"--{flag}: {paths[0]} holds records without masks; expected --spm_model_file or "
            "--vocab_file, their vocabulary"
        )
    unmasked = unmasked_record(options.max_seq_length, config.vocab_size)
    scanned = _scan(paths, unmasked, options, flag)
    _check_vocabulary(scanned, unmasked, options)
    masker = Masker(tokenizer, select(options, MaskingConfig))
    return Records(scanned, unmasked, masker, tokenizer, sha256)


def save_records(options: RecordOptions, records: Mapping[str, Records]) -> None:
    """Writes the counts of the records of each flag to the output folder, for a resumed run."""
    skips = options.on_bad_record == "skip"
    scanned = {
        flag: (of_flag.files, of_flag.spec if skips else None)
        for flag, of_flag in records.items()
        if of_flag.files
    }
    save_scanned(os.path.join(options.output_dir, _RECORDS_FILE), scanned)


def check_same_vocabulary(train: Records, evaluation: Records) -> None:
    """Checks that two sets of records have the same vocabulary, if their stats files name it."""
    received = {train.vocabulary_sha256, evaluation.vocabulary_sha256} - {None}
    if len(received) > 1:
        raise InputError(
            f"--eval_input_file: {evaluation.files[0].path} and {train.files[0].path} were made with "
            "different vocabularies according to their stats files; expected the same one"
        )


def _read_stats(paths: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the content of the records' stats files, by path. The original's records have none."""
    found = filter(tf.io.gfile.exists, dict.fromkeys(map(stats_file_of, paths)))
    contents = {path: files.read_json(path) for path in found}
    return {path: stats for path, stats in contents.items() if isinstance(stats, dict)}


def _load_tokenizer(
    options: RecordOptions, all_stats: Mapping[str, dict[str, Any]]
) -> Tokenizer | None:
    """Loads the vocabulary of the flags or else that with which the records were made."""
    vocabulary, lower_case = (options.spm_model_file, options.vocab_file), True
    for path, stats in all_stats.items():
        of_records = stats.get("options", {})
        lower_case = of_records.get("do_lower_case", lower_case)
        names = of_records.get("spm_model_file"), of_records.get("vocab_file")
        for name in filter(None, names if not any(vocabulary) else ()):
            # The records may have been moved, together with the vocabulary.
            places = (name, os.path.join(os.path.dirname(path), os.path.basename(name)))
            is_same = (
                tf.io.gfile.exists(place) and files.sha256(place) == stats.get("vocabulary_sha256")
                for place in places
            )
            found = next(itertools.compress(places, is_same), None)
            vocabulary = (found, None) if names[0] else (None, found)
    return load_tokenizer(*vocabulary, lower_case) if any(vocabulary) else None


def _check_stats(
    all_stats: Mapping[str, dict[str, Any]],
    tokenizer: Tokenizer | None,
    options: RecordOptions,
    config: AlbertConfig,
) -> str | None:
    """Checks the vocabulary that the records' stats files name, and returns its SHA-256."""
    expected = tokenizer and tokenizer.vocabulary_sha256
    source = tokenizer and tokenizer.vocabulary_file
    for path, stats in all_stats.items():
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


def _first_sizes(
    paths: Sequence[str], bound: RecordSpec, options: RecordOptions
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yields each file with a good record, and the sizes of its first one, none larger than `bound`'s."""
    skips = options.on_bad_record == "skip"
    for path in paths:
        with contextlib.suppress(*([InputError] if skips else [])):
            if sizes := read_sizes(path, bound, limit=None if skips else 1):
                yield path, sizes


def _are_unmasked(
    paths: Sequence[str], spec: RecordSpec, flag: str, options: RecordOptions
) -> bool:
    """Returns whether the first good records of the files have no masks."""
    kinds = {
        not any(name.startswith("masked_lm_") for name in sizes): path
        for path, sizes in _first_sizes(paths, spec, options)
    }
    if len(kinds) > 1:
        raise InputError(
            f"--{flag}: {kinds[True]} holds records without masks, {kinds[False]} records with "
            "masks; expected records of one kind"
        )
    return True in kinds


def _scan(
    paths: Sequence[str], spec: RecordSpec, options: RecordOptions, flag: str
) -> list[RecordFile]:
    """Checks the first record of each file, or all to leave out the bad ones, and counts the records.

    The counts in the run's folder are used if they still hold.
    """
    skips = options.on_bad_record == "skip"
    if not skips:
        for path in paths:
            check_first_record(path, spec)
    saved = os.path.join(options.output_dir, _RECORDS_FILE)
    scanned = load_scanned(saved, flag, paths, spec if skips else None) if paths else []
    if scanned is None:
        scanned = scan_files(paths, spec, f"counting the records of --{flag}", skips)
    if skips and paths:
        _report_bad(scanned, flag)
    return scanned


def _report_bad(scanned: Sequence[RecordFile], flag: str) -> None:
    lines = [line for file in scanned for line in file.describe_bad()]
    good_count = sum(file.good_count for file in scanned)
    if not good_count:
        raise InputError(
            f"--{flag}: no record can be used: {lines[0] if lines else 'the files are empty'}"
        )
    for line in lines[:_MAX_SHOWN]:
        print(f"warning: {line}; left out", file=sys.stderr)
    bad_count = sum(len(file.faults) for file in scanned)
    damaged_count = sum(file.damage is not None for file in scanned)
    print(
        f"--{flag}: leaving out {bad_count} bad records and the rest of {damaged_count} damaged files; "
        f"using {good_count} records"
    )


def write_bad_records(options: RecordOptions, records: Iterable[Records]) -> None:
    """Writes `bad_records.txt`, with one line per bad record, if there are any."""
    lines = [f"{line}\n" for each in records for file in each.files for line in file.describe_bad()]
    if lines:
        files.make_directory(options.output_dir)
        files.write_text(os.path.join(options.output_dir, _BAD_RECORDS_FILE), "".join(lines))


def explain_mistakes(
    options: RecordOptions, records: Records
) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which an error about a bad record names it."""
    # With skip, all bad records are known already.
    is_open = options.on_bad_record == "error"
    paths = [file.path for file in records.files] if is_open else ()
    return explain_bad_records(paths, records.spec)


def _check_vocabulary(
    scanned: Sequence[RecordFile], spec: RecordSpec, options: RecordOptions
) -> None:
    """Checks the first record of each file, if there is one."""
    tokenizers = [  # the records may have been made with any --word_start
        load_tokenizer(options.spm_model_file, options.vocab_file, True, word_start_rule)
        for word_start_rule in get_args(WordStartRule)
    ]
    for file in scanned:
        for serialized in read_in_order([file]).take(1):
            record = {name: tensor.numpy() for name, tensor in spec.parse(serialized).items()}
            faults = [find_vocabulary_fault(record, tokenizer) for tokenizer in tokenizers]
            if all(faults):
                raise InputError(
                    f"{file.path}, record 1: {faults[0]}; expected the vocabulary of the records"
                )
