"""Tokenizers with SentencePiece and WordPiece vocabularies, and training of the former.

`albert_tf.tokenization.in_graph` has the tokenizers as TensorFlow operations. It is not imported here:
TensorFlow takes seconds to import.
"""

from albert_tf.tokenization.interface import Tokenizer
from albert_tf.tokenization.sentencepiece_tokenizer import AlbertTokenizer, WordStartRule
from albert_tf.tokenization.vocabulary import train_vocabulary, vocab_file_of
from albert_tf.tokenization.wordpiece_tokenizer import WordPieceTokenizer

__all__ = [
    "AlbertTokenizer",
    "Tokenizer",
    "WordPieceTokenizer",
    "WordStartRule",
    "train_vocabulary",
    "vocab_file_of",
]
