"""The options of making pre-training data."""

import dataclasses
import os
from typing import TYPE_CHECKING, ClassVar, Literal

from albert_tf.data.pretraining.corpus import CorpusConfig
from albert_tf.data.pretraining.input_files import stats_file_of
from albert_tf.data.pretraining.masking import MaskingConfig
from albert_tf.data.pretraining.segments import SegmentConfig
from albert_tf.errors import InputError
from albert_tf.options import check_ranges, option, select
from albert_tf.options.bounds import Bounds
from albert_tf.options.models import PieceOptions, VocabularyOptions
from albert_tf.sources import MODEL_NAMES
from albert_tf.tokenization import WordStartRule, vocab_file_of

if TYPE_CHECKING:
    from albert_tf.data.pretraining.instances import PretrainingDataConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataOptions(
    VocabularyOptions, PieceOptions, CorpusConfig, SegmentConfig, MaskingConfig
):
    """The options of `albert-create-pretraining-data`."""

    DEFAULTS: ClassVar = {"do_lower_case": "as the folder of --model says, otherwise true"}

    input_file: tuple[str, ...] = option(
        "Text files, glob patterns or folders, comma-separated. Files of gzip, bzip2, xz and "
        "Zstandard are decompressed."
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
    model: str | None = option(
        f"Model to train further, whose vocabulary and case are used instead: {MODEL_NAMES}.", None
    )
    train_vocab: bool = option(
        "First train a SentencePiece model on the input and write it to --spm_model_file.", False
    )
    keep_accents: bool = option(
        "Train a vocabulary that keeps accents and other marks; its file says so. Published ones drop "
        "them: má becomes ma.",
        False,
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
        "characters other than ASCII letters and punctuation, so each piece of a Russian word counts as "
        "a word. sentencepiece: at a word mark, and at the unknown piece.",
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
        Bounds(least=1, most=self.max_seq_length).check("ngram", self.ngram)
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
        if self.keep_accents and not self.train_vocab:
            raise InputError("--keep_accents: expected --train_vocab; other vocabularies decide it")
        if self.add_pieces and self.train_vocab:
            raise InputError("--add_pieces: expected a vocabulary; received --train_vocab")
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
            assert self.spm_model_file is not None
            vocabulary = (vocab_file_of(self.spm_model_file), self.spm_model_file)
            outputs = [(path, "spm_model_file") for path in vocabulary] + outputs
        return outputs

    @property
    def config(self) -> "PretrainingDataConfig":
        """What to make of the corpus."""
        from albert_tf.data.pretraining.instances import PretrainingDataConfig

        return PretrainingDataConfig(
            corpus=select(self, CorpusConfig),
            segments=select(self, SegmentConfig),
            masking=select(self, MaskingConfig) if self.masking == "static" else None,
            seed=self.random_seed,
            dupe_factor=self.dupe_factor,
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
