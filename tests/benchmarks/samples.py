"""A folder as pre-training leaves it, with a tiny model; measured rounds; rows of tables."""

from albert_tf.conversion import save_model
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.tokenization import train_vocabulary
from benchmarks.harness import Round
from tests.helpers import tiny_config
from tests.tokenization.conftest import make_sentences

_VOCAB_SIZE = 250


def write_pretrained(folder):
    """Writes the folder of a run with its best model."""
    folder.mkdir()
    vocabulary = folder / "spiece.model"
    train_vocabulary(make_sentences(), str(vocabulary), vocab_size=_VOCAB_SIZE)
    sizes = {"vocab_size": _VOCAB_SIZE, "num_hidden_layers": 2, "initializer_range": 0.2}
    config = tiny_config(**sizes)
    model = AlbertPretrainer(AlbertEncoder(config, seed=1), seed=2)
    contents = {"spiece.model": vocabulary.read_bytes()}
    save_model(model, str(folder / "best"), contents=contents)


def rounds_of(*seconds):
    return [Round(one, one, 100.0) for one in seconds]


def cells_of(table):
    """Returns the cells of each row of a Markdown table."""
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows]
