"""Makes pre-training data: text in, TFRecords out; trains the vocabulary on demand."""

import os
from typing import Any

from albert_tf import files
from albert_tf.data.pretraining import beam, shards
from albert_tf.data.pretraining.input_files import (
    InputFile,
    expect_unchanged,
    find_file,
    find_files,
    name_files,
)
from albert_tf.data.pretraining.instances import PretrainingDataStats
from albert_tf.data.source_files import JSON_SUFFIXES, suffix_of
from albert_tf.errors import InputError, name_place, warn
from albert_tf.model_folder import ModelFolder
from albert_tf.options import to_json_dict
from albert_tf.options.resolution import Resolution, resolved
from albert_tf.resumable import make_outputs
from albert_tf.sources import find_model
from albert_tf.tasks.paths import check_addresses
from albert_tf.tasks.pretraining_data_options import PretrainingDataOptions
from albert_tf.tasks.vocabulary import load_tokenizer, warn_of_unknown
from albert_tf.tokenization import train_vocabulary
from albert_tf.tokenization.added_pieces import add_pieces
from albert_tf.tokenization.vocabulary_files import vocabulary_flags

# A lower mean number of sentences per paragraph means that the text was hardly split.
_MIN_SENTENCES = 1.1


def run(options: PretrainingDataOptions) -> PretrainingDataStats:
    """Makes the records of `options.input_file`, and returns statistics of the corpus and the instances.

    A stopped run resumes when it is called again with the same options; see `albert_tf.resumable`.
    """
    check_addresses(options)
    values = Resolution(options)
    if options.model:
        with name_place("--model"):
            _add_vocabulary(values, options.model)
    values.add("default", {"do_lower_case": True})
    options = values.options()
    if options.masking == "static":
        options.warn_of_few_predictions(options.max_seq_length)
    with name_place("--input_file"):
        inputs = find_files(options.input_file)
        _check_names(inputs, options.input_format)
    make_outputs(
        name=options.output_file,
        paths={path: f"--{flag}={getattr(options, flag)}" for path, flag in options.outputs},
        request=_request(options, inputs),
        overwrite=options.overwrite,
        make=lambda incomplete, parts: _make(options, inputs, incomplete, parts),
    )
    stats = PretrainingDataStats.from_json_dict(files.read_json(options.stats_file)["counts"])
    _print_summary(stats, options)
    return stats


def _check_names(inputs: list[InputFile], input_format: str) -> None:
    for file in inputs:
        if input_format != "jsonl" and suffix_of(file.path) in JSON_SUFFIXES:
            raise InputError(
                f"{file.path}: named as JSON; expected --input_format=jsonl, received {input_format}"
            )


def _add_vocabulary(values: Resolution[PretrainingDataOptions], model: str) -> None:
    """Adds the vocabulary of `--model`, which takes the place of its name."""
    folder = ModelFolder.of(find_model(model))
    flags = vocabulary_flags(folder, lower_case=values.given.do_lower_case)
    if not flags:
        raise InputError(f"{model}: holds no vocabulary")
    values.replace("model", None)
    values.add("model", flags)


def _request(options: PretrainingDataOptions, inputs: list[InputFile]) -> dict[str, Any]:
    """Returns everything that determines the records."""
    request = to_json_dict(options)
    for name in ("num_workers", "overwrite", "runner_options"):
        del request[name]
    read = list(inputs)
    if not options.train_vocab:
        flag = "spm_model_file" if options.spm_model_file else "vocab_file"
        with name_place(f"--{flag}"):
            read.append(find_file(getattr(options, flag)))
    if options.add_pieces:
        with name_place("--add_pieces"):
            read.append(find_file(options.add_pieces))
    return {"options": request, "files": read}


def _make(
    options: PretrainingDataOptions, inputs: list[InputFile], incomplete: dict[str, str], parts: str
) -> None:
    """Makes the missing files, under their names in `incomplete`."""
    model_file = options.spm_model_file
    if model_file is not None:
        model_file = incomplete.get(model_file, model_file)
    if options.train_vocab and model_file and not files.exists(model_file):
        _train_vocabulary(options, inputs, model_file)
    tokenizer = load_tokenizer(
        spm_model_file=model_file,
        vocab_file=options.vocab_file,
        lower_case=resolved(options.do_lower_case),
        word_start_rule=options.word_start,
    )
    if options.add_pieces:
        with name_place("--add_pieces"):
            tokenizer = add_pieces(tokenizer, options.add_pieces)
    written = [incomplete[path] for path in options.shards]
    arguments = (inputs, tokenizer, options.config, written, parts)
    if options.runner == "local":
        num_workers = options.num_workers or os.cpu_count() or 1
        stats, sha256 = shards.make_pretraining_data(*arguments, num_workers)
    else:
        with name_place(f"--runner={options.runner}"):
            stats, sha256 = beam.make_pretraining_data(
                *arguments, options.runner, options.runner_options
            )
    counts = stats.to_json_dict()
    records = counts.pop("shard_records").values()
    described = {
        "counts": counts,
        "shards": {
            os.path.basename(path): {"bytes": find_file(incomplete[path]).size, "records": count}
            for path, count in zip(options.shards, records, strict=True)
        },
        "vocab_size": tokenizer.vocab_size,
        "vocabulary_sha256": tokenizer.vocabulary_sha256,
        **stats.means(),
        "input_files": [
            {"path": file.path, "bytes": file.size, "sha256": sha256[file.path]} for file in inputs
        ],
        "options": to_json_dict(options),
    }
    files.write_json(incomplete[options.stats_file], described)


def _train_vocabulary(
    options: PretrainingDataOptions, inputs: list[InputFile], model_file: str
) -> None:
    print(f"training a vocabulary of {options.vocab_size} pieces", flush=True)
    with expect_unchanged(inputs):
        train_vocabulary(
            sentences=options.config.read([file.path for file in inputs]).sentences(),
            model_file=model_file,
            vocab_size=options.vocab_size,
            lower_case=resolved(options.do_lower_case),
            vocab_sentences=options.vocab_sentences,
            keep_accents=options.keep_accents,
        )


def _print_summary(stats: PretrainingDataStats, options: PretrainingDataOptions) -> None:
    if options.input_format != "lines" and stats.sentences < _MIN_SENTENCES * stats.paragraphs:
        warn(
            f"found only {stats.sentences} sentences in {stats.paragraphs} paragraphs with "
            f"--language={options.language}; if its sentences have no end mark (Thai), split them "
            "yourself and use --input_format=lines"
        )
    means = stats.means()
    vocabulary_file = options.spm_model_file or options.vocab_file
    warn_of_unknown(
        unknown=stats.unknown_pieces,
        pieces=stats.pieces,
        text="--input_file",
        vocabulary_file=vocabulary_file,
        lower_case=options.do_lower_case,
    )
    stem, suffix = os.path.splitext(options.output_file)
    folder, stem = os.path.split(stem)
    shards_of_any = f"{files.escape(stem)}-?????-of-?????{files.escape(suffix)}"
    found = files.matches(folder, shards_of_any)
    if others := {*map(os.path.basename, found)}.difference(map(os.path.basename, options.shards)):
        warn(
            f"{name_files(sorted(others))}: of another number of shards; remove them, or a "
            "pattern will match both"
        )
    masked = f"{means['masked_share']:.2%} masked" if options.masking == "static" else "unmasked"
    print(
        f"read: {stats.documents} documents, {stats.sentences} sentences, {stats.pieces} pieces "
        f"({means['unknown_share']:.2%} unknown); skipped: {stats.skipped_documents} documents that are "
        f"too short, {stats.skipped_sentences} lines without a piece\n"
        f"made: {stats.instances} instances, {means['mean_length']:.1f} pieces on average, {masked}, "
        f"{means['swapped_share']:.1%} with label 1\n"
        f"wrote: {name_files(options.shards)}, with statistics in {options.stats_file}"
    )
