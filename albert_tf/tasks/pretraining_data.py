"""Makes pre-training data: text in, a vocabulary where asked for, TFRecords out."""

import dataclasses
import os
import sys
from collections.abc import Mapping
from typing import Any, Literal

from albert_tf import files, gfile
from albert_tf.data.pretraining import beam as beam_pipeline
from albert_tf.data.pretraining import shards as two_passes
from albert_tf.data.pretraining.chunks import MadeData, PretrainingDataRule
from albert_tf.data.pretraining.corpus import (
    CorpusReader,
    CorpusRule,
    InputFile,
    expect_unchanged,
    find_file,
    find_files,
    name_files,
)
from albert_tf.data.pretraining.segments import SegmentRule
from albert_tf.data.pretraining.statistics import PretrainingDataStats, stats_file_of
from albert_tf.errors import FlagError, InputError, name_place
from albert_tf.options import option, to_json_dict
from albert_tf.resumable import make_outputs
from albert_tf.tasks.masking_options import MAX_LENGTH, MaskingOptions
from albert_tf.tokenization import (
    Tokenizer,
    WordStartRule,
    load_tokenizer,
    train_vocabulary,
    vocab_file_of,
)

# With fewer sentences in a paragraph, on average, the text was hardly split.
_MIN_SENTENCES = 1.1
# The folder of complete blocks. It is kept for other options or inputs, as each block says what it was
# made from.
_RUNS = "runs"

# What a flag's value has to be: a test and its wording.
_EXPECTED = {
    "input_file": (lambda paths: paths and all(paths), "at least one file"),
    "output_file": (
        lambda path: path and "," not in path and not path.endswith("/"),
        "one file; --num_shards divides it into several",
    ),
    "num_shards": (lambda count: 1 <= count <= 99999, "1 to 99999"),  # five digits in their names
    "num_workers": (lambda count: count is None or count >= 1, "1 or more"),
    "vocab_sentences": (lambda count: count >= 1, "1 or more"),
    # The special pieces alone, to what SentencePiece can count.
    "vocab_size": (lambda size: 5 <= size < 2**31, f"5 to {2**31 - 1}"),
    # [CLS] a [SEP] b [SEP] is the shortest.
    "max_seq_length": (lambda length: 5 <= length <= MAX_LENGTH, f"5 to {MAX_LENGTH}"),
    "max_predictions_per_seq": (lambda count: 1 <= count <= MAX_LENGTH, f"1 to {MAX_LENGTH}"),
    "dupe_factor": (lambda count: count >= 1, "1 or more"),
    "short_seq_prob": (lambda share: 0 <= share <= 1, "0 to 1"),
    "masked_lm_prob": (lambda share: 0 < share <= 1, "more than 0 and at most 1"),
    "ngram": (lambda words: words >= 1, "1 or more"),
    "random_seed": (lambda seed: seed >= 0, "0 or more"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataOptions(MaskingOptions):
    """The options of `create_pretraining_data.py`."""

    input_file: tuple[str, ...] = option(
        "Text files, glob patterns or folders, comma-separated; files that end in .gz or .zst are "
        "decompressed."
    )
    output_file: str = option("TFRecord file to write; out-00000-of-00128.tfrecord where sharded.")
    input_format: Literal["lines", "text", "jsonl"] = option(
        "lines: a sentence a line, a blank line between documents; text: prose, a document a file; "
        "jsonl: a JSON object a line, with the prose of a document in its field 'text'.",
        "lines",
    )
    language: str = option("Language of the prose, as ISO 639 code, for its sentences.", "en")
    encoding_errors: Literal["strict", "replace"] = option(
        "What to do with bytes that are not UTF-8: stop, or read them as U+FFFD and count.",
        "strict",
    )
    num_shards: int = option("Files to write.", 1)
    compression: Literal["none", "gzip"] = option("Compression of the files.", "none")
    overwrite: bool = option("Replace files that exist.", False)
    num_workers: int | None = option(
        "Processes that work in parallel; the result does not depend on it; default one a core.",
        None,
    )
    runner: Literal["local", "DirectRunner", "DataflowRunner", "FlinkRunner", "SparkRunner"] = (
        option("Where the work is done: here, or by a runner of Apache Beam.", "local")
    )
    runner_options: tuple[str, ...] = option(
        "Options of Apache Beam's runner, e.g. --project=name,--region=name.", ()
    )
    spm_model_file: str | None = option("SentencePiece model.", None)
    vocab_file: str | None = option("WordPiece vocabulary, instead of a SentencePiece model.", None)
    do_lower_case: bool = option("Lower-case the text; as the vocabulary was made.", True)
    train_vocab: bool = option(
        "First train a SentencePiece model on the input and write it to --spm_model_file.", False
    )
    vocab_size: int = option("Pieces of the model that --train_vocab trains.", 30000)
    vocab_sentences: int = option(
        "Sentences that --train_vocab draws from the input, and holds in memory.", 1_000_000
    )
    max_seq_length: int = option("Pieces in a sequence, [CLS] and [SEP] included.", 512)
    masking: Literal["static", "dynamic"] = option(
        "static: write masked sequences; dynamic: write unmasked ones, which run_pretraining.py "
        "masks anew in each pass, by its own flags.",
        "static",
    )
    word_start: WordStartRule = option(
        "Where words begin, for masks of whole words. original: at a word mark and at any piece that has "
        "not only ASCII letters, so a Russian word is as many words as pieces; sentencepiece: at a word "
        "mark only.",
        "original",
    )
    sentence_objective: Literal["sop", "nsp", "none"] = option(
        "Second loss: sop, are two segments in order (ALBERT); nsp, does the second follow the "
        "first (BERT); none, a single segment.",
        "sop",
    )
    short_seq_prob: float = option("Share of sequences made shorter, by a random length.", 0.1)
    dupe_factor: int = option(
        "Copies of the input, each with other segments and masks; 40 in the original.", 10
    )
    random_seed: int = option("Seed of every draw.", 12345)

    def __post_init__(self):
        """Raises FlagError where the flags alone show a mistake."""
        for name, (is_valid, expected) in _EXPECTED.items():
            value = getattr(self, name)
            if not is_valid(value):
                shown = ",".join(value) if isinstance(value, tuple) else value
                raise FlagError(f"--{name}: received '{shown}', expected {expected}")
        if self.ngram > self.max_seq_length:
            raise FlagError(
                f"--ngram: received '{self.ngram}', expected no more than "
                f"--max_seq_length={self.max_seq_length}"
            )
        if bool(self.spm_model_file) == bool(self.vocab_file):
            raise FlagError("expected one of --spm_model_file and --vocab_file, not none, not both")
        if self.train_vocab and not self.spm_model_file:
            raise FlagError("--train_vocab: expected --spm_model_file, the file to write")
        self._check_that_files_differ()

    @property
    def shards(self) -> list[str]:
        """The record files."""
        if self.num_shards == 1:
            return [self.output_file]
        stem, suffix = os.path.splitext(self.output_file)
        return [
            f"{stem}-{number:05d}-of-{self.num_shards:05d}{suffix}"
            for number in range(self.num_shards)
        ]

    @property
    def stats_file(self) -> str:
        """The file that says what was read and made."""
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
    def rule(self) -> PretrainingDataRule:
        """What is made of the corpus."""
        segments = SegmentRule(self.max_seq_length, self.sentence_objective, self.short_seq_prob)
        corpus = CorpusRule(
            self.input_format, self.encoding_errors, self.language, segments.min_documents
        )
        masking = self.masking_rule if self.masking == "static" else None
        return PretrainingDataRule(corpus, segments, masking, self.random_seed, self.dupe_factor)

    def _check_that_files_differ(self):
        inputs = [(path, "input_file") for path in self.input_file]
        if not self.train_vocab:
            vocabulary = ("spm_model_file", "vocab_file")
            inputs += [(getattr(self, flag), flag) for flag in vocabulary if getattr(self, flag)]
        named = {os.path.abspath(path): flag for path, flag in inputs}
        for path, flag in self.outputs:
            if other := named.get(os.path.abspath(path)):
                raise FlagError(
                    f"--{flag}: would write '{path}', which --{other} names too; expected "
                    "different files"
                )
            named[os.path.abspath(path)] = flag


def run(options: PretrainingDataOptions) -> PretrainingDataStats:
    """Makes the records of `options.input_file`.

    A run that was stopped is finished by another with the same options; see `albert_tf.resumable`.

    Returns:
        what was read and made.

    Raises:
        InputError: a file is missing, unreadable or not of the format, there is no text, or a file
            that would be written exists.
        StoppedError: a worker died, an input file was changed, or the file system refuses.
    """
    files.check_addresses(to_json_dict(options))
    if options.masking == "static":
        options.warn_of_few_predictions(options.max_seq_length)
    inputs = find_files(options.input_file, "input_file")
    make_outputs(
        options.output_file,
        dict(options.outputs),
        _request(options, inputs),
        options.overwrite,
        lambda incomplete: _make(options, inputs, incomplete),
        reusable=[_RUNS],
    )
    stats = PretrainingDataStats.from_json_dict(files.read_json(options.stats_file)["counts"])
    _print_summary(stats, options)
    return stats


def _request(options: PretrainingDataOptions, inputs: list[InputFile]) -> dict[str, Any]:
    """Returns all that decides what is made."""
    request = to_json_dict(options)
    for name in ("num_workers", "overwrite"):
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
    """Makes the files that are not there yet, under their names in `incomplete`."""
    read = _train_tokenizer(options, inputs, incomplete) if options.train_vocab else {}
    model_file = options.spm_model_file
    tokenizer = load_tokenizer(
        incomplete.get(model_file, model_file),
        options.vocab_file,
        options.do_lower_case,
        options.word_start,
    )
    folder = os.path.join(os.path.dirname(incomplete[options.stats_file]), _RUNS)
    files.make_directory(folder, "output_file")
    arguments = (
        inputs,
        tokenizer,
        options.rule,
        [incomplete[path] for path in options.shards],
        options.compression,
        folder,
    )
    if options.runner == "local":
        num_workers = options.num_workers or os.cpu_count()
        made = two_passes.make_pretraining_data(*arguments, num_workers)
    else:
        made = beam_pipeline.make_pretraining_data(
            *arguments, options.runner, options.runner_options
        )
    for path, sha256 in read.items():
        if made.sha256[path] != sha256:
            raise InputError(
                f"{path}: changed after the vocabulary was trained on it; run the command again"
            )
    files.write_json(incomplete[options.stats_file], _describe(options, inputs, made, tokenizer))


def _train_tokenizer(
    options: PretrainingDataOptions, inputs: list[InputFile], incomplete: dict[str, str]
) -> Mapping[str, str]:
    """Trains the vocabulary if it is not there yet. Returns the hashes of what was read for it."""
    model_file = incomplete[options.spm_model_file]
    reader = CorpusReader([file.path for file in inputs], options.rule.corpus)
    if not gfile.exists(model_file):
        print(f"training a vocabulary of {options.vocab_size} pieces", flush=True)
        with expect_unchanged(inputs):
            train_vocabulary(
                reader.sentences(),
                model_file,
                options.vocab_size,
                options.do_lower_case,
                options.vocab_sentences,
            )
    return reader.sha256


def _describe(
    options: PretrainingDataOptions, inputs: list[InputFile], made: MadeData, tokenizer: Tokenizer
) -> dict[str, Any]:
    """Returns what the stats file says."""
    stats = made.stats
    return {
        "counts": stats.to_json_dict(),
        "vocab_size": tokenizer.vocab_size,
        "vocabulary_sha256": tokenizer.vocabulary_sha256,
        "replaced_lines": made.replaced_lines,
        "unknown_share": stats.unknown_share,
        "mean_length": stats.mean_length,
        "masked_share": stats.masked_share,
        "swapped_share": stats.swapped_share,
        "input_files": [
            {"path": file.path, "bytes": file.size, "sha256": made.sha256[file.path]}
            for file in inputs
        ],
        "options": to_json_dict(options),
    }


def _print_summary(stats: PretrainingDataStats, options: PretrainingDataOptions) -> None:
    if options.input_format != "lines" and stats.sentences < _MIN_SENTENCES * stats.paragraphs:
        print(
            f"warning: only {stats.sentences} sentences were found in {stats.paragraphs} paragraphs with "
            f"--language={options.language}; if its sentences have no end mark (Thai), split them "
            "yourself and use --input_format=lines",
            file=sys.stderr,
        )
    shards = options.shards
    masked = (
        f"{stats.masked_share:.2%} masked" if options.masking == "static" else "none masked yet"
    )
    print(
        f"read: {stats.documents} documents, {stats.sentences} sentences, {stats.pieces} pieces, "
        f"{stats.unknown_share:.2%} unknown; skipped: {stats.skipped_documents} documents that are "
        f"too short, {stats.skipped_sentences} lines without a piece\n"
        f"made: {stats.instances} instances of {stats.mean_length:.1f} pieces on average, "
        f"{masked}, {stats.swapped_share:.1%} with label 1\n"
        f"wrote: {name_files(shards)}; {options.stats_file} says more"
    )
