"""Embeds the texts of a file with any encoder, and exports models from texts to embeddings."""

import contextlib
import dataclasses
import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator

import numpy as np

from albert_tf import files
from albert_tf.data.fine_tuning.column_names import ColumnNames, NamedColumns
from albert_tf.data.fine_tuning.opened_tables import read_texts
from albert_tf.data.fine_tuning.tables import is_table
from albert_tf.errors import InputError, name_place
from albert_tf.file_kinds import decompress
from albert_tf.model_folder import ModelFolder
from albert_tf.progress import Progress
from albert_tf.sources import find_model
from albert_tf.tasks.embedding_options import EmbeddingOptions
from albert_tf.tasks.fine_tuning.predictions import STANDARD_INPUT
from albert_tf.tasks.loaded import Loaded
from albert_tf.tasks.loading import load
from albert_tf.tasks.paths import check_addresses, refuse_existing
from albert_tf.tasks.vocabulary import load_tokenizer, warn_of_unknown
from albert_tf.tokenization.vocabulary_files import vocabulary_flags

# Sorted by length and embedded together. Those of width 1024 take 32 MB.
_TEXTS_AT_ONCE = 8192


def run(options: EmbeddingOptions) -> None:
    """Does what the options ask for."""
    check_addresses(options)
    if options.output_file:
        refuse_existing("output_file", options.output_file)
    with name_place("--model"):
        options = dataclasses.replace(options, model=find_model(options.model))
    tokenizer = None
    given = options.given_vocabulary
    if any(value is not None for value in given):
        # An exported model has no vocabulary that could be read in another way.
        flags = vocabulary_flags(ModelFolder.of(options.model), *given)
        tokenizer = load_tokenizer(*(flags.values() or given))
    with name_place("--model"):
        loaded = load(options.model, tokenizer, options.num_hidden_layers)
    embedder = loaded.make_embedder(
        pooling=options.pooling,
        normalize=options.normalize,
        max_seq_length=options.max_seq_length,
        prompt_name=options.prompt_name,
    )
    if options.input_file and options.output_file:
        _embed_file(
            options.input_file,
            path=options.output_file,
            names=ColumnNames(text_column=options.text_column, columns=options.columns),
            embedder=embedder,
        )
    if options.export_dir:
        paths = embedder.export(options.export_dir, options.export_format, options.export_weights)
        print("\n".join(f"exported {path}" for path in paths.values()))


def _embed_file(input_file: str, path: str, names: ColumnNames, embedder: Loaded) -> None:
    tokenizer, unknown, tokens, width = embedder.tokenizer, 0, 0, 0
    with _open_texts(input_file, names, embedder.kind.columns) as read_all:
        # Reads everything once before anything is embedded: a mistake in the last line shows at once.
        count = sum(1 for _ in read_all())
        if not count:
            raise InputError(f"--input_file={input_file}: holds no text")
        rest = read_all()
        with (
            files.write_atomically(path) as incomplete,
            files.open_file(incomplete, "wb") as file,
            Progress("embedding", "texts", count) as progress,
        ):
            while texts := list(itertools.islice(rest, _TEXTS_AT_ONCE)):
                examples = embedder.kind.make_examples(texts)
                features = embedder.kind.encode(examples, tokenizer)
                unknown += int(np.count_nonzero(features.input_ids == tokenizer.unk_id))
                tokens += len(features.input_ids)
                predictions = embedder.run(examples, progress.update, features)
                rows = embedder.kind.result(examples, predictions)
                if not width:
                    width = rows.shape[1]
                    header = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
                    np.lib.format.write_array_header_1_0(file, header)
                file.write(rows.astype("<f4").tobytes())
    warn_of_unknown(
        unknown,
        pieces=tokens,
        text=f"--input_file={input_file}",
        vocabulary_file=tokenizer.vocabulary_file,
        lower_case=tokenizer.lower_case,
    )
    print(f"wrote {path}: {count:,} embeddings of width {width}")


def _open_texts(
    path: str, names: ColumnNames, known: NamedColumns
) -> contextlib.AbstractContextManager[Callable[[], Iterator[str]]]:
    """Returns a context with a function that returns all texts each time it is called.

    `names` are the columns that the user names, and `known` those that the model was trained with.
    """
    if path != STANDARD_INPUT and is_table(path):
        texts = read_texts(path, names, known)
        return contextlib.nullcontext(lambda: iter(texts))
    for flag, value in dataclasses.asdict(names).items():
        if value is not None:
            raise InputError(
                f"--{flag}={value}: expected a table as --input_file; received {path}, lines of text"
            )
    return _open_lines(path)


@contextlib.contextmanager
def _open_lines(path: str) -> Iterator[Callable[[], Iterator[str]]]:
    """Yields a function that returns all lines each time it is called; standard input is copied."""
    name = path
    with contextlib.ExitStack() as stack:
        if path == STANDARD_INPUT:
            name = "standard input"
            copy = stack.enter_context(tempfile.NamedTemporaryFile())
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            path = copy.name
        elif not files.exists(path):
            raise InputError(f"--input_file: no file '{path}'; - is standard input")

        def read_lines() -> Iterator[str]:
            content = decompress(files.read_chunks(path), name)
            lines = files.decode_lines(content, name, files.decode_strictly)
            return (line for _, line in lines)

        yield read_lines
