"""Our normalisation in the form that SentencePiece compiles its own into.

Runtimes with SentencePiece's normaliser apply it to text before the vocabulary's own normalisation.
"""

import io
import os
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf import files
from albert_tf.tokenization.graph_normalization import normalized_characters

_SURROGATES = range(0xD800, 0xE000)  # which no UTF-8 text has
_SILENT = 5  # above the level of every message of SentencePiece's C++ code


def compile_charsmap(lower_case: bool) -> bytes:
    """Returns what `normalize_text` makes of each character, as a `precompiled_charsmap`.

    A capital sigma stays: its lower case depends on its neighbours. White space becomes spaces, which
    the normaliser itself collapses.
    """
    rules = (
        f"{char:X}\t{' '.join(f'{part:X}' for part in parts)}\n"
        for char, parts in normalized_characters(lower_case).items()
        if char not in _SURROGATES
    )
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rules.tsv")
        files.write_text(path, "".join(rules))
        # Only the trainer compiles rules. The vocabulary of this sentence is not used.
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a"]),
            model_writer=model,
            model_type="char",
            vocab_size=5,
            hard_vocab_limit=False,
            normalization_rule_tsv=path,
            minloglevel=_SILENT,
        )
    trained = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return trained.normalizer_spec.precompiled_charsmap
