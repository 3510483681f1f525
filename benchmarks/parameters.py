"""Counts the parameters of every preset and compares them with the figures of the ALBERT paper.

Usage:
    python -m benchmarks.parameters

The paper (Lan et al. 2020, https://arxiv.org/abs/1909.11942) does not say what it counts. One rule gives
all but two of its figures: the encoder without heads, with its pooler if layers share weights, and
without the pooler if they share none, as in BERT. `_DEPARTURES` explains the other two; the command fails
if any other figure differs.
"""

import concurrent.futures
import dataclasses
from collections.abc import Callable

import keras

from albert_tf import command_line
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from benchmarks.harness import markdown_table

# Table 1, in millions. BERT-xlarge, and its 1270M, is in the first version of the paper only.
_SIZES = {
    "base": 12,
    "large": 18,
    "xlarge": 60,
    "xxlarge": 235,
    "bert_base": 108,
    "bert_large": 334,
    "bert_xlarge": 1270,
}
# Tables 3 and 4, in millions: what the layers of the base size share -> E -> figure.
_VARIANTS = {
    "all": {64: 10, 128: 12, 256: 16, 768: 31},
    "attention": {128: 64, 768: 83},
    "ffn": {128: 38, 768: 57},
    "none": {64: 87, 128: 89, 256: 93, 768: 108},
}
_DEPARTURES = {
    "xlarge": "the published weights are 58.7M, too; the paper does not say what else it counts",
    "xxlarge": "the published weights are 222.6M, too; the paper does not say what else it counts",
}
_HEADER = (
    *("model", "embedding", "blocks", "pooler", "heads", "total"),
    *("as the paper counts", "paper", "of BERT-large"),
)


@dataclasses.dataclass(frozen=True)
class ParameterCount:
    """Parameters of a model's parts, each shared one counted once."""

    embedding: int  # tables, their layer norm and the projection
    blocks: int
    pooler: int
    heads: int  # masked LM, without the word table, and sentence order
    shares: bool  # whether any two layers have weights in common

    @property
    def total(self) -> int:
        """Parameters of all parts."""
        return self.embedding + self.blocks + self.pooler + self.heads

    @property
    def in_paper(self) -> int:
        """What the paper counts."""
        return self.embedding + self.blocks + (self.pooler if self.shares else 0)

    def agrees(self, figure: int) -> bool:
        """Returns whether the count rounds to the paper's figure in millions, of at most three digits."""
        unit = 10 if figure >= 1000 else 1
        return round(self.in_paper / 1e6 / unit) * unit == figure


def without_values(make_model: Callable[[], keras.Model]) -> keras.Model:
    """Returns a new model whose variables have no values; those of BERT-xlarge would take 5 GB."""

    def make():
        with keras.StatelessScope(initialize_variables=False):
            return make_model()

    # Keras lists the variables of such a scope, and makes their values after the next other scope of the
    # same thread.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


def count_parameters(config: AlbertConfig) -> ParameterCount:
    """Counts the parameters of a model with its pre-training heads."""
    model = without_values(lambda: AlbertPretrainer(AlbertEncoder(config)))
    encoder = model.encoder
    embedding, pooler = encoder.embedding.count_params(), encoder.pooler.count_params()
    return ParameterCount(
        embedding=embedding,
        blocks=encoder.count_params() - embedding - pooler,
        pooler=pooler,
        heads=model.masked_lm_head.count_params() + model.sentence_order_head.count_params(),
        shares=config.sharing != "none",
    )


@dataclasses.dataclass(frozen=True)
class _NoOptions:
    """The command has no flags."""


def _main(_: _NoOptions) -> None:
    figures = {name: (_SIZES[_size(name)], AlbertConfig.from_preset(name)) for name in PRESETS}
    for sharing, figure_of in _VARIANTS.items():
        for size, figure in figure_of.items():
            config = AlbertConfig.from_preset("base_v2", embedding_size=size, sharing=sharing)
            figures[f"base, E={size}, {sharing} shared"] = figure, config
    counts = {name: count_parameters(config) for name, (_, config) in figures.items()}
    rows, differing = [], {}
    for name, count in counts.items():
        figure, _ = figures[name]
        if not count.agrees(figure):
            differing[_size(name)] = f"does not round to {figure}M, unexplained"
        parts = (count.embedding, count.blocks, count.pooler, count.heads, count.total)
        cells = [f"{part:,}" for part in (*parts, count.in_paper)]
        cells.append(f"{figure}M" if count.agrees(figure) else f"{figure}M (!)")
        rows.append([name, *cells, f"{count.in_paper / counts['bert_large'].in_paper:.3f}"])
    print(markdown_table(_HEADER, rows), end="\n\n")
    for size, fault in differing.items():
        print(f"{size}: {_DEPARTURES.get(size, fault)}")
    if unexplained := differing.keys() - _DEPARTURES.keys():
        raise InputError(f"not the paper's figure: {', '.join(unexplained)}")


def _size(preset: str) -> str:
    return preset.removesuffix("_v1").removesuffix("_v2")


if __name__ == "__main__":
    command_line.run(_NoOptions, _main)
