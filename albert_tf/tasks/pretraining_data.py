"""Makes pre-training data: text in, TFRecords out; trains the vocabulary on demand."""

import dataclasses
import glob
import os
from typing import Any, Literal

import tensorflow as tf

from albert_tf import files
from albert_tf.data.pretraining import beam, shards
from albert_tf.data.pretraining.corpus import CorpusConfig
from albert_tf.data.pretraining.input_files import (
    InputFile,
    expect_unchanged,
    find_file,
    find_files,
    name_files,
)
from albert_tf.data.pretraining.instances import (
    MadeData,
    PretrainingDataConfig,
    PretrainingDataStats,
)
from albert_tf.data.pretraining.masking import MaskingConfig
from albert_tf.data.pretraining.record_files import stats_file_of
from albert_tf.data.pretraining.segments import SegmentConfig
from albert_tf.errors import InputError, name_place, warn
from albert_tf.options import check_range, check_ranges, option, select, to_json_dict
from albert_tf.resumable import make_outputs
from albert_tf.sources import MODEL_NAMES, find_model, folder_of
from albert_tf.tasks.flags import check_addresses, load_tokenizer
from albert_tf.tokenization import Tokenizer, WordStartRule, train_vocabulary, vocab_file_of
from albert_tf.tokenization.vocabulary_files import find_vocabulary, is_lower_cased

# A lower mean number of sentences per paragraph means that the text was hardly split.
_MIN_SENTENCES = 1.1
# The folder of complete chunks. It is kept for other options or inputs, as each chunk says what it was
# made from.
_RUNS = "runs"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataOptions(CorpusConfig, SegmentConfig, MaskingConfig):
    """The options of `create_pretraining_data.py`."""

    input_file: tuple[str, ...] = option(
        "Text files, glob patterns or folders, comma-separated. Files that end in .gz or .zst are "
        "decompressed."
    )
    output_file: str = option(
        "TFRecord file to write, such as train.tfrecord. Several shards are named "
        "train-00000-of-00128.tfrecord and so on."
    )
    num_shards: int = option(
        "Number of files to write.",
        1,
        least=1,
        most=99999,  # five digits in their names
    )
    overwrite: bool = option("Replace existing output files.", False)
    num_workers: int | None = option(
        "Number of worker processes. The output does not depend on it. Default: one per core.",
        None,
        least=1,
    )
    runner: Literal[
        "local", "DaskRunner", "DataflowRunner", "DirectRunner", "FlinkRunner", "SparkRunner"
    ] = option(
        "Where to do the work: on this machine, or on a cluster with a runner of Apache Beam.",
        "local",
    )
    runner_options: tuple[str, ...] = option(
        "Options of Apache Beam's runner, e.g. --project=name,--region=name or "
        "--dask_client_address=tcp://host:8786.",
        (),
    )
    spm_model_file: str | None = option("SentencePiece model.", None)
    vocab_file: str | None = option("WordPiece vocabulary, instead of a SentencePiece model.", None)
    model: str | None = option(
        f"Model whose vocabulary and case to use instead, to train it further: {MODEL_NAMES}.", None
    )
    do_lower_case: bool = option(
        "Lower-case the text. Must match the vocabulary's training text.", True
    )
    train_vocab: bool = option(
        "First train a SentencePiece model on the input and write it to --spm_model_file.", False
    )
    # The special pieces alone, up to what SentencePiece can count.
    vocab_size: int = option("Number of pieces of the trained model.", 30000, least=5)
    vocab_sentences: int = option(
        "Number of sentences to train the model on, drawn at random and held in memory.",
        1_000_000,
        least=1,
    )
    masking: Literal["static", "dynamic"] = option(
        "static: write masked sequences. dynamic: write unmasked ones, which pre-training masks "
        "differently in each epoch, by its own flags.",
        "static",
    )
    word_start: WordStartRule = option(
        "Where words begin, for whole-word masking. original: at a word mark and at any piece with "
        "others than ASCII letters and punctuation, so that each piece of a Russian word counts as a "
        "word. sentencepiece: at a word mark, and at the unknown piece.",
        "original",
    )
    dupe_factor: int = option(
        "Number of copies of the input, each with different segments and masks. The original used 40.",
        10,
        least=1,
    )
    random_seed: int = option("Seed of all random choices.", 12345, least=0, most=2**63 - 1)

    def __post_init__(self):
        """Raises InputError if the flags alone show a mistake."""
        super().__post_init__()
        check_ranges(self)
        check_range(self, "ngram", 1, self.max_seq_length)
        if not all(self.input_file or ("",)):
            raise InputError("--input_file: expected at least one file; received none")
        if not self.output_file or "," in self.output_file or self.output_file.endswith("/"):
            raise InputError(
                f"--output_file={self.output_file}: expected one file; --num_shards splits it into "
                "several"
            )
        if [self.spm_model_file, self.vocab_file, self.model].count(None) != 2:
            raise InputError("expected either --spm_model_file or --vocab_file, or --model")
        if self.runner_options and self.runner == "local":
            raise InputError("--runner_options: expected a --runner of Apache Beam, received local")
        if self.train_vocab and not self.spm_model_file:
            raise InputError("--train_vocab: expected --spm_model_file, the file to write")
        self._check_that_files_differ()

    @property
    def shards(self) -> list[str]:
        """The record files to write."""
        if self.num_shards == 1:
            return [self.output_file]
        stem, suffix = os.path.splitext(self.output_file)
        return [
            f"{stem}-{number:05d}-of-{self.num_shards:05d}{suffix}"
            for number in range(self.num_shards)
        ]

    @property
    def stats_file(self) -> str:
        """The file of statistics."""
        return stats_file_of(self.output_file)

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """The files to write and the flag that names each."""
        outputs = [(path, "output_file") for path in (*self.shards, self.stats_file)]
        if self.train_vocab:
            vocabulary = (vocab_file_of(self.spm_model_file), self.spm_model_file)
            outputs = [(path, "spm_model_file") for path in vocabulary] + outputs
        return outputs

    @property
    def config(self) -> PretrainingDataConfig:
        """What to make of the corpus."""
        return PretrainingDataConfig(
            select(self, CorpusConfig),
            select(self, SegmentConfig),
            select(self, MaskingConfig) if self.masking == "static" else None,
            self.random_seed,
            self.dupe_factor,
        )

    def _check_that_files_differ(self):
        inputs = [(path, "input_file") for path in self.input_file]
        if not self.train_vocab:
            vocabulary = ("spm_model_file", "vocab_file")
            inputs += [(getattr(self, flag), flag) for flag in vocabulary if getattr(self, flag)]
        named = {os.path.abspath(path): flag for path, flag in inputs}
        for path, flag in self.outputs:
            if other := named.get(os.path.abspath(path)):
                raise InputError(
                    f"--{flag}: would write '{path}', which --{other} names too; expected "
                    "different files"
                )
            named[os.path.abspath(path)] = flag


def run(options: PretrainingDataOptions) -> PretrainingDataStats:
    """Makes the records of `options.input_file`, and returns statistics of the corpus and the instances.

    A stopped run resumes when it is called again with the same options; see `albert_tf.resumable`.
    """
    check_addresses(options)
    if options.model:
        with name_place("--model"):
            options = _with_vocabulary(options)
    if options.masking == "static":
        options.warn_of_few_predictions(options.max_seq_length)
    with name_place("--input_file"):
        inputs = find_files(options.input_file)
    make_outputs(
        options.output_file,
        {path: f"--{flag}={getattr(options, flag)}" for path, flag in options.outputs},
        _request(options, inputs),
        options.overwrite,
        lambda incomplete: _make(options, inputs, incomplete),
        reusable=[_RUNS],
    )
    stats = PretrainingDataStats.from_json_dict(files.read_json(options.stats_file)["counts"])
    _print_summary(stats, options)
    return stats


def _with_vocabulary(options: PretrainingDataOptions) -> PretrainingDataOptions:
    folder = folder_of(find_model(options.model))
    spm_model_file, vocab_file = find_vocabulary(folder)
    if not (spm_model_file or vocab_file):
        raise InputError(f"{options.model}: holds no vocabulary")
    return dataclasses.replace(
        options,
        model=None,
        spm_model_file=spm_model_file,
        vocab_file=vocab_file,
        do_lower_case=is_lower_cased(folder, vocab_file is not None),
    )


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
    return {"options": request, "files": read}


def _make(
    options: PretrainingDataOptions, inputs: list[InputFile], incomplete: dict[str, str]
) -> None:
    """Makes the missing files, under their names in `incomplete`."""
    model_file = incomplete.get(options.spm_model_file, options.spm_model_file)
    if options.train_vocab and not tf.io.gfile.exists(model_file):
        _train_vocabulary(options, inputs, model_file)
    tokenizer = load_tokenizer(
        model_file, options.vocab_file, options.do_lower_case, options.word_start
    )
    folder = os.path.join(os.path.dirname(incomplete[options.stats_file]), _RUNS)
    files.make_directory(folder)
    arguments = (
        inputs,
        tokenizer,
        options.config,
        [incomplete[path] for path in options.shards],
        folder,
    )
    if options.runner == "local":
        num_workers = options.num_workers or os.cpu_count()
        made = shards.make_pretraining_data(*arguments, num_workers)
    else:
        with name_place(f"--runner={options.runner}"):
            made = beam.make_pretraining_data(*arguments, options.runner, options.runner_options)
    files.write_json(incomplete[options.stats_file], _describe(options, inputs, made, tokenizer))


def _train_vocabulary(
    options: PretrainingDataOptions, inputs: list[InputFile], model_file: str
) -> None:
    print(f"training a vocabulary of {options.vocab_size} pieces", flush=True)
    with expect_unchanged(inputs):
        train_vocabulary(
            options.config.read([file.path for file in inputs]).sentences(),
            model_file,
            options.vocab_size,
            options.do_lower_case,
            options.vocab_sentences,
        )


def _describe(
    options: PretrainingDataOptions, inputs: list[InputFile], made: MadeData, tokenizer: Tokenizer
) -> dict[str, Any]:
    stats = made.stats
    return {
        "counts": stats.to_json_dict(),
        "vocab_size": tokenizer.vocab_size,
        "vocabulary_sha256": tokenizer.vocabulary_sha256,
        **stats.means(),
        "input_files": [
            {"path": file.path, "bytes": file.size, "sha256": made.sha256[file.path]}
            for file in inputs
        ],
        "options": to_json_dict(options),
    }


def _print_summary(stats: PretrainingDataStats, options: PretrainingDataOptions) -> None:
    if options.input_format != "lines" and stats.sentences < _MIN_SENTENCES * stats.paragraphs:
        warn(
            f"found only {stats.sentences} sentences in {stats.paragraphs} paragraphs with "
            f"--language={options.language}; if its sentences have no end mark (Thai), split them "
            "yourself and use --input_format=lines"
        )
    stem, suffix = os.path.splitext(options.output_file)
    found = tf.io.gfile.glob(f"{glob.escape(stem)}-?????-of-?????{suffix}")
    if others := {*map(os.path.basename, found)}.difference(map(os.path.basename, options.shards)):
        warn(
            f"{name_files(sorted(others))}: of another number of shards; remove them, or a "
            "pattern will match both"
        )
    means = stats.means()
    masked = f"{means['masked_share']:.2%} masked" if options.masking == "static" else "unmasked"
    print(
        f"read: {stats.documents} documents, {stats.sentences} sentences, {stats.pieces} pieces "
        f"({means['unknown_share']:.2%} unknown); skipped: {stats.skipped_documents} documents that are "
        f"too short, {stats.skipped_sentences} lines without a piece\n"
        f"made: {stats.instances} instances, {means['mean_length']:.1f} pieces on average, {masked}, "
        f"{means['swapped_share']:.1%} with label 1\n"
        f"wrote: {name_files(options.shards)}, with statistics in {options.stats_file}"
    )
