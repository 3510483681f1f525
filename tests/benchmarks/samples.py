"""A folder as pre-training leaves it, with a tiny model; measured rounds; rows of tables."""

from albert_tf.checkpoints.tensor_files import variables_by_path
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.tokenization import train_vocabulary
from albert_tf.training.checkpoint_manager import Checkpoints
from benchmarks.harness import Round
from tests.helpers import tiny_config
from tests.tokenization.conftest import make_sentences

_VOCAB_SIZE = 250


def write_pretrained(folder, **changes):
    """Writes config, vocabulary and the best checkpoint, and returns the model."""
    folder.mkdir()
    train_vocabulary(make_sentences(), str(folder / "spiece.model"), vocab_size=_VOCAB_SIZE)
    sizes = {"vocab_size": _VOCAB_SIZE, "num_hidden_layers": 2, "initializer_range": 0.2}
    config = tiny_config(**sizes, **changes)
    config.to_json_file(str(folder / "albert_config.json"))
    model = AlbertPretrainer(AlbertEncoder(config, seed=1), seed=2)
    Checkpoints(str(folder / "best"), variables_by_path(model.weights), 1).save(7)
    return model


def rounds_of(*seconds):
    return [Round(one, one, 100.0) for one in seconds]


def cells_of(table):
    """Returns the cells of each row of a Markdown table."""
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows]
