"""Makes pre-training data: text in, a vocabulary where asked for, TFRecords out."""

import dataclasses
import itertools
import os
from collections.abc import Mapping
from typing import Literal

from albert_tf import files
from albert_tf.data.pretraining import (
    InstanceMaker,
    PretrainingDataStats,
    make_records,
    read_corpus,
    read_documents,
)
from albert_tf.data.records import write_records
from albert_tf.data.sentence_order import SegmentRule
from albert_tf.errors import FlagError, InputError
from albert_tf.options import option
from albert_tf.progress import Progress
from albert_tf.tasks.masking_options import MaskingOptions
from albert_tf.tokenization import Tokenizer, load_tokenizer, train_vocabulary, vocab_file_of

# Records are padded, so a slip of the hand would fill memory and disk; no published model is near.
_MAX_LENGTH = 65536

# What a flag's value has to be: a test and its wording.
_EXPECTED = {
    "input_file": (lambda paths: paths and all(paths), "at least one file"),
    "output_file": (lambda paths: paths and all(paths), "at least one file"),
    # The special pieces alone, to what SentencePiece can count.
    "vocab_size": (lambda size: 5 <= size < 2**31, f"5 to {2**31 - 1}"),
    # [CLS] a [SEP] b [SEP] is the shortest.
    "max_seq_length": (lambda length: 5 <= length <= _MAX_LENGTH, f"5 to {_MAX_LENGTH}"),
    "max_predictions_per_seq": (lambda count: 1 <= count <= _MAX_LENGTH, f"1 to {_MAX_LENGTH}"),
    "dupe_factor": (lambda count: count >= 1, "1 or more"),
    "short_seq_prob": (lambda share: 0 <= share <= 1, "0 to 1"),
    "masked_lm_prob": (lambda share: 0 < share <= 1, "more than 0 and at most 1"),
    "ngram": (lambda words: words >= 1, "1 or more"),
    "random_seed": (lambda seed: seed >= 0, "0 or more"),
}


@dataclasses.dataclass(frozen=True)
class PretrainingDataOptions(MaskingOptions):
    """The options of `create_pretraining_data.py`."""

    input_file: tuple[str, ...] = option(
        "Text files or glob patterns, comma-separated: a sentence a line, a blank line between "
        "documents, UTF-8."
    )
    output_file: tuple[str, ...] = option(
        "TFRecord files to write, comma-separated; instances are dealt to them in turn."
    )
    spm_model_file: str | None = option("SentencePiece model.", None)
    vocab_file: str | None = option("WordPiece vocabulary, instead of a SentencePiece model.", None)
    do_lower_case: bool = option("Lower-case the text; as the vocabulary was made.", True)
    train_vocab: bool = option(
        "First train a SentencePiece model on the input and write it to --spm_model_file.", False
    )
    vocab_size: int = option("Pieces of the model that --train_vocab trains.", 30000)
    max_seq_length: int = option("Pieces in a sequence, [CLS] and [SEP] included.", 512)
    masking: Literal["static", "dynamic"] = option(
        "static: write masked sequences; dynamic: write unmasked ones, which run_pretraining.py "
        "masks anew in each pass, by its own flags.",
        "static",
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
        if bool(self.spm_model_file) == bool(self.vocab_file):
            raise FlagError("expected one of --spm_model_file and --vocab_file, not none, not both")
        if self.train_vocab and not self.spm_model_file:
            raise FlagError("--train_vocab: expected --spm_model_file, the file to write")
        self._check_that_files_differ()

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """The files to write and the flag that names each; once the last is there, all are."""
        outputs = [(path, "output_file") for path in self.output_file]
        if self.train_vocab:
            vocabulary = (vocab_file_of(self.spm_model_file), self.spm_model_file)
            outputs = [(path, "spm_model_file") for path in vocabulary] + outputs
        return outputs

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

    A run that was killed is finished by another with the same options; see `files.write_once`.

    Returns:
        what was read and made.

    Raises:
        InputError: a file is missing, unreadable or not UTF-8, there is no text, or a file that
            would be written exists.
    """
    input_files = files.expand_globs(options.input_file, "input_file")
    # Together, because a vocabulary whose records failed would be in the way of the next try.
    with files.write_once(dict(options.outputs)) as incomplete:
        tokenizer = _load_or_train_tokenizer(options, input_files, incomplete)
        records, stats = _make_records(options, input_files, tokenizer)
        write_records([incomplete[path] for path in options.output_file], records)
    _print_summary(stats, options.output_file)
    return stats


def _load_or_train_tokenizer(
    options: PretrainingDataOptions, input_files: list[str], incomplete: Mapping[str, str]
) -> Tokenizer:
    model_file = options.spm_model_file
    if options.train_vocab:
        print(f"training a vocabulary of {options.vocab_size} pieces", flush=True)
        sentences = itertools.chain.from_iterable(read_documents(input_files))
        model_file = incomplete[model_file]
        train_vocabulary(sentences, model_file, options.vocab_size, options.do_lower_case)
    return load_tokenizer(model_file, options.vocab_file, options.do_lower_case)


def _make_records(
    options: PretrainingDataOptions, input_files: list[str], tokenizer: Tokenizer
) -> tuple[list[bytes], PretrainingDataStats]:
    segment_rule = SegmentRule(
        options.max_seq_length, options.sentence_objective, options.short_seq_prob
    )
    masking_rule = options.masking_rule if options.masking == "static" else None
    with Progress("reading", "documents") as progress:
        corpus = read_corpus(input_files, tokenizer, segment_rule, progress)
    total = options.dupe_factor * len(corpus.documents)
    with Progress("making instances", "documents", total) as progress:
        maker = InstanceMaker(tokenizer, segment_rule, masking_rule)
        records, stats = make_records(
            corpus, maker, options.random_seed, options.dupe_factor, progress
        )
    if len(records) < len(options.output_file):
        raise InputError(
            f"--output_file: received {len(options.output_file)} files for {len(records)} "
            "instances, expected no more files than instances"
        )
    return records, stats


def _print_summary(stats: PretrainingDataStats, output_files: tuple[str, ...]) -> None:
    print(
        f"read: {stats.documents} documents, {stats.sentences} sentences, {stats.pieces} pieces, "
        f"{stats.unknown_share:.2%} unknown; skipped: {stats.skipped_documents} documents that are "
        f"too short, {stats.skipped_sentences} lines without a piece\n"
        f"made: {stats.instances} instances of {stats.mean_length:.1f} pieces on average, "
        f"{stats.masked_share:.2%} masked, {stats.swapped_share:.1%} with label 1\n"
        f"wrote: {', '.join(output_files)}"
    )
