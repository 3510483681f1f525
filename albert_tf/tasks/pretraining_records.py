"""The records of a pre-training run: which files, in which order, with or without masks."""

import contextlib
import hashlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.data.pretraining.input_files import name_files, stats_file_of
from albert_tf.data.pretraining.masking import Masker, MaskingConfig
from albert_tf.data.pretraining.record_batches import Records
from albert_tf.data.pretraining.record_files import (
    RecordFile,
    compression_type,
    count_records,
    first_record,
    scan,
)
from albert_tf.data.records import feature_sizes, pretraining_record, unmasked_record
from albert_tf.errors import InputError, name_place, warn
from albert_tf.options import select
from albert_tf.options.resolution import Resolution, resolved
from albert_tf.tasks.pretraining_options import PretrainingOptions
from albert_tf.tasks.training_options import PAPER_LENGTH, PAPER_PREDICTIONS
from albert_tf.tasks.vocabulary import (
    check_vocab_size,
    grown_config,
    load_tokenizer,
    with_added_pieces,
)
from albert_tf.tokenization import Tokenizer

_FLAGS = ("input_file", "eval_input_file")
# Sizes of the files in bytes, and numbers of their records.
_RECORDS_FILE = "records.json"


def record_sizes(values: Resolution[PretrainingOptions], config: AlbertConfig) -> dict[str, int]:
    """Returns the options that the first record determines; the paper's sizes without records."""
    flag = "input_file" if values["input_file"] else "eval_input_file"
    with name_place(f"--{flag}"):
        paths = files.expand_globs(values[flag])
    positions = config.max_position_embeddings
    bound = pretraining_record(positions, positions)
    sizes: Mapping[str, int] = {}
    for path in paths:
        record = first_record(path, bound)
        if sizes := feature_sizes(record):
            break
        if record:
            bound.check([record], path, 1)
    length = values["max_seq_length"] or sizes.get("input_ids", PAPER_LENGTH)
    if length > positions:
        raise InputError(
            f"--{flag}: the records have {length} tokens; {values['albert_config_file']} has "
            f"max_position_embeddings {positions}"
        )
    predictions = PAPER_PREDICTIONS
    if sizes:
        masked = (size for name, size in sizes.items() if name.startswith("masked_lm_"))
        predictions = next(masked, math.ceil(length * values["masked_lm_prob"]))
    return {"max_seq_length": length, "max_predictions_per_seq": predictions}


def open_records(
    options: PretrainingOptions, config: AlbertConfig, has_begun: bool = False
) -> tuple[dict[str, Records], Tokenizer | None]:
    """Finds and checks the files of both flags, and detects whether their records have masks.

    Returns the records by flag, and the tokenizer that made them; None if its vocabulary is not known. It
    has the pieces of `--add_pieces`, which the vocabulary of a run that `has_begun` has already.
    """
    paths, stats = {}, {}
    for flag in _FLAGS:
        with name_place(f"--{flag}"):
            paths[flag] = files.expand_globs(getattr(options, flag))
        stats[flag] = _read_stats(paths[flag])
    if both := sorted(set(paths["input_file"]) & set(paths["eval_input_file"])):
        warn(f"--eval_input_file: --input_file has {name_files(both)} too")
    all_stats = stats["input_file"] | stats["eval_input_file"]
    tokenizer = _load_tokenizer(options, all_stats)
    if tokenizer is not None:
        check_vocab_size(tokenizer, config, resolved(options.albert_config_file))
        tokenizer = with_added_pieces(tokenizer, options.add_pieces, has_begun)
        config = grown_config(config, tokenizer)
    elif options.add_pieces:
        raise InputError(
            f"--add_pieces={options.add_pieces}: expected --spm_model_file or --vocab_file, as the "
            "vocabulary of the records is not known"
        )
    _check_stats(stats, tokenizer, options, config)
    known = _known_counts(options, all_stats)
    records = {flag: _open(options, config, flag, paths[flag], known, tokenizer) for flag in _FLAGS}
    return records, tokenizer


def _open(
    options: PretrainingOptions,
    config: AlbertConfig,
    flag: str,
    paths: Sequence[str],
    known: Mapping[str, Mapping[str, int]],
    tokenizer: Tokenizer | None,
) -> Records:
    spec = pretraining_record(
        resolved(options.max_seq_length),
        resolved(options.max_predictions_per_seq),
        config.vocab_size,
    )
    firsts = {path: first_record(path, spec) for path in paths}
    first = next(filter(None, firsts.values()), b"")
    masker = None
    if _are_unmasked(firsts, flag):
        if tokenizer is None:
            raise InputError(
                f"--{flag}: {paths[0]} holds records without masks; expected --spm_model_file or "
                "--vocab_file, their vocabulary"
            )
        spec = unmasked_record(resolved(options.max_seq_length), config.vocab_size)
        spec = spec.for_unmasked(first)
        masker = Masker(tokenizer, select(options, MaskingConfig))
    else:
        spec = spec.for_masked(first)
    if options.sentence_objective == "none":
        spec = spec.without("next_sentence_labels")
    for path, record in firsts.items():
        if record:
            spec.check([record], path, 1)
            first_id = spec.parse(tf.constant(record))["input_ids"][0]
            if masker and tokenizer and first_id != tokenizer.cls_id:
                raise InputError(
                    f"{path}, record 1: begins with id {first_id}, but [CLS] is {tokenizer.cls_id} in "
                    f"{tokenizer.vocabulary_file}; expected the vocabulary of the records"
                )
    counted = count_records(paths, spec, known)
    return Records(
        files=counted,
        spec=spec,
        masker=masker,
        fingerprint=_fingerprint(counted, firsts.values()),
        compression=_compression(paths, flag),
    )


def _compression(paths: Sequence[str], flag: str) -> str:
    """Returns TensorFlow's name for what all files are compressed with; nothing for plain ones."""
    kinds = {compression_type(path): path for path in paths}
    if len(kinds) > 1:
        raise InputError(
            f"--{flag}: {kinds['GZIP']} is compressed, {kinds['']} is not; expected files of one kind"
        )
    return next(iter(kinds), "")


def _fingerprint(record_files: Sequence[RecordFile], firsts: Iterable[bytes]) -> str:
    """Returns a digest of the sizes, the counts and the first records of files, in their order."""
    digest = hashlib.sha256()
    for file, first in zip(record_files, firsts, strict=True):
        digest.update(f"{file.size} {file.count} {len(first)} ".encode() + first)
    return digest.hexdigest()


def _known_counts(
    options: PretrainingOptions, stats: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, int]]:
    """Returns the numbers of records that an earlier run or the stats files say; see `count_records`."""
    known, saved = {}, os.path.join(options.output_dir, _RECORDS_FILE)
    if options.do_train and files.exists(saved):
        known = files.read_json(saved)
    for path, values in stats.items():
        for name, counts in values.get("shards", {}).items():
            known[os.path.join(os.path.dirname(path), name)] = counts
    return known


def _read_stats(paths: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the content of the records' stats files, by path. The original's records have none."""
    found = filter(files.exists, dict.fromkeys(map(stats_file_of, paths)))
    contents = {path: files.read_json(path) for path in found}
    return {path: stats for path, stats in contents.items() if isinstance(stats, dict)}


def _load_tokenizer(
    options: PretrainingOptions, all_stats: Mapping[str, dict[str, Any]]
) -> Tokenizer | None:
    """Loads the vocabulary of the flags, or else that of the records, if it is known."""
    vocabulary, lower_case = (options.spm_model_file, options.vocab_file), options.do_lower_case
    for path, stats in reversed([*all_stats.items()]):
        values = stats.get("options", {})
        if options.do_lower_case is None:
            lower_case = values.get("do_lower_case", lower_case)
        spm_model_file = values.get("spm_model_file")
        name = spm_model_file or values.get("vocab_file")
        if any(vocabulary) or not name:
            continue
        # The records may have been moved, together with the vocabulary.
        for place in (name, os.path.join(os.path.dirname(path), os.path.basename(name))):
            if files.exists(place) and files.sha256(place) == stats.get("vocabulary_sha256"):
                vocabulary = (place, None) if spm_model_file else (None, place)
                break
    return load_tokenizer(*vocabulary, lower_case is not False) if any(vocabulary) else None


def _check_stats(
    stats: Mapping[str, Mapping[str, dict[str, Any]]],
    tokenizer: Tokenizer | None,
    options: PretrainingOptions,
    config: AlbertConfig,
) -> None:
    """Checks that the stats files of all records name the vocabulary and the objective of the run."""
    expected = source = None
    ours: dict[str, Any] = {}
    if tokenizer is not None:
        expected, source = tokenizer.vocabulary_sha256, tokenizer.vocabulary_file
        ours["do_lower_case"] = tokenizer.lower_case
    # Without the objective, labels for another one do no harm.
    if options.sentence_objective != "none":
        ours["sentence_objective"] = options.sentence_objective
    for flag, by_path in stats.items():
        for path, values in by_path.items():
            made = f"--{flag}: {path}: the records were made with"
            size = values.get("vocab_size", config.vocab_size)
            if size != config.vocab_size:
                raise InputError(
                    f"{made} a vocabulary of {size} pieces, but {options.albert_config_file} says "
                    f"vocab_size {config.vocab_size}"
                )
            sha256 = values.get("vocabulary_sha256", expected)
            if expected not in (None, sha256):
                raise InputError(
                    f"{made} another vocabulary than {source}: SHA-256 {sha256}, expected {expected}"
                )
            expected, source = sha256, source or path
            theirs = values.get("options", {})
            for name, value in ours.items():
                if theirs.get(name, value) != value:
                    raise InputError(f"{made} {name} {theirs[name]}, but this run has {value}")


def _are_unmasked(firsts: Mapping[str, bytes], flag: str) -> bool:
    """Returns whether the first records of the files have no masks."""
    kinds = {
        not any(name.startswith("masked_lm_") for name in sizes): path
        for path, record in firsts.items()
        if (sizes := feature_sizes(record))
    }
    if len(kinds) > 1:
        raise InputError(
            f"--{flag}: {kinds[True]} holds records without masks, {kinds[False]} records with "
            "masks; expected records of one kind"
        )
    return True in kinds


def save_counts(options: PretrainingOptions, records: Mapping[str, Records]) -> None:
    """Writes the numbers of records to the output folder, so that a resumed run need not count them."""
    counts = {
        file.path: {"bytes": file.size, "records": file.count}
        for record_set in records.values()
        for file in record_set.files
    }
    files.write_json(os.path.join(options.output_dir, _RECORDS_FILE), counts)


@contextlib.contextmanager
def explain_bad_records(records: Mapping[str, Records]) -> Iterator[None]:
    """Turns TensorFlow's error about a bad record into an `InputError` that names the record.

    TensorFlow's message names neither the file nor the record, so after an error the files are read
    again. An error with another cause is raised again unchanged.
    """
    try:
        yield
    # TensorFlow's message contains the record, which need not be text.
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError):
        for record_set in records.values():
            for file in record_set.files:
                scan(file.path, record_set.spec, checks=True)
        raise
