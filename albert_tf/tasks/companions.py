"""The config and the tokenizer that go with the weights of a stored model."""

from collections.abc import Sequence
from typing import Any

from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.tasks.vocabulary import check_vocab_size, load_tokenizer
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.interface import check_tokenizer
from albert_tf.tokenization.vocabulary_files import vocabulary_flags


def find_companions(
    stored: StoredModel,
    num_hidden_layers: int | None,
    tokenizer: Tokenizer | None = None,
    given_vocabulary: Sequence[Any] = (),
) -> tuple[AlbertConfig, Tokenizer | None]:
    """Returns the config with another depth, if one is given, and the tokenizer, if there is any.

    Args:
        stored: the model.
        num_hidden_layers: number of layers; None for that of the config.
        tokenizer: the one to check against the config, instead of that of the model's folder.
        given_vocabulary: `VocabularyOptions.given_vocabulary`, which the folder completes.

    Raises:
        InputError: the vocabulary has another size than the model's.
    """
    config = stored.config.with_layers(num_hidden_layers)
    if tokenizer is None:
        flags = vocabulary_flags(stored.folder, *given_vocabulary)
        tokenizer = load_tokenizer(*flags.values()) if flags else None
    if tokenizer is not None:
        assert stored.config_file is not None, "it holds the config"
        check_tokenizer(tokenizer)
        check_vocab_size(tokenizer, config, stored.config_file)
    return config, tokenizer
