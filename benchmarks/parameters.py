"""Counts the parameters of every preset and compares them with the figures of the ALBERT paper.

Usage:
    python -m benchmarks.parameters

The paper (Lan et al. 2020, https://arxiv.org/abs/1909.11942) does not say what it counts. One rule gives
all but two of its figures: the encoder without heads, with its pooler where layers share weights,
and without the pooler where no two layers do, as in BERT. A figure that ours does not round to has a
line of explanation in `_DEPARTURES`; without one the command fails.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping

import keras

import command_line
from albert_tf.config import PRESETS, AlbertConfig
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
# Table 3, in millions: E -> what the layers of the base size share -> figure.
_EMBEDDING_SIZES = {
    64: {"none": 87, "all": 10},
    128: {"none": 89, "all": 12},
    256: {"none": 93, "all": 16},
    768: {"none": 108, "all": 31},
}
# Table 4, in millions, likewise.
_SHARING = {
    768: {"all": 31, "attention": 83, "ffn": 57, "none": 108},
    128: {"all": 12, "attention": 64, "ffn": 38, "none": 89},
}
_DEPARTURES = {
    "xlarge": "the published weights are 58.7M, too, or 59.0M with the pre-training heads; the paper "
    "does not say what else it counts for 60M",
    "xxlarge": "the published weights are 222.6M, too (a file of 890.4 MB), or 223.2M with the "
    "pre-training heads; the paper does not say what else it counts for 235M",
}
_HEADER = (
    *("model", "embedding", "blocks", "pooler", "heads", "total"),
    *("as the paper counts", "paper", "of BERT-large"),
)


@dataclasses.dataclass(frozen=True)
class ParameterCount:
    """Parameters of a model, each shared one counted once.

    Attributes:
        embedding: of the tables, their layer norm and the projection.
        blocks: of all distinct blocks.
        pooler: of the dense layer on [CLS].
        heads: of the masked-LM and the sentence-order head; the word table is not counted again.
        shares: whether any two layers have weights in common.
    """

    embedding: int
    blocks: int
    pooler: int
    heads: int
    shares: bool

    @property
    def total(self) -> int:
        """Of all parts."""
        return self.embedding + self.blocks + self.pooler + self.heads

    @property
    def in_paper(self) -> int:
        """What the paper counts."""
        return self.embedding + self.blocks + (self.pooler if self.shares else 0)


def count_parameters(config: AlbertConfig) -> ParameterCount:
    """Counts the parameters of a model with its pre-training heads, without making their values."""
    # In this scope Keras puts off to make a variable's value, and without initialisation it never
    # does: BERT-xlarge would take 5 GB.
    with keras.StatelessScope(initialize_variables=False):
        model = AlbertPretrainer(AlbertEncoder(config))
    encoder = model.encoder
    embedding, pooler = encoder.embedding.count_params(), encoder.pooler.count_params()
    return ParameterCount(
        embedding=embedding,
        blocks=encoder.count_params() - embedding - pooler,
        pooler=pooler,
        heads=model.masked_lm_head.count_params() + model.sentence_order_head.count_params(),
        shares=config.sharing != "none",
    )


def agrees(count: ParameterCount, figure: int) -> bool:
    """Returns whether a count rounds to a figure of the paper, which has three digits or fewer.

    Args:
        count: of our model.
        figure: in millions.
    """
    unit = 10 if figure >= 1000 else 1
    return round(count.in_paper / 1e6 / unit) * unit == figure


def preset_rows() -> Iterator[tuple[str, ParameterCount, int]]:
    """Yields name, count and the paper's figure in millions of every preset."""
    for name in PRESETS:
        yield name, count_parameters(AlbertConfig.from_preset(name)), _SIZES[_size(name)]


def variant_rows(
    figures: Mapping[int, Mapping[str, int]],
) -> Iterator[tuple[str, ParameterCount, int]]:
    """Yields name, count and the paper's figure in millions of variants of the base size.

    Args:
        figures: embedding size -> `AlbertConfig.sharing` -> figure.
    """
    for embedding_size, figure_of in figures.items():
        for sharing, figure in figure_of.items():
            config = AlbertConfig.from_preset(
                "base_v2", embedding_size=embedding_size, sharing=sharing
            )
            yield f"E={embedding_size}, {sharing} shared", count_parameters(config), figure


def report() -> bool:
    """Prints all tables and returns whether every figure is the paper's or explained."""
    bert_large = count_parameters(AlbertConfig.from_preset("bert_large"))
    tables = {
        "Sizes (the paper's table 1)": list(preset_rows()),
        "Embedding sizes (table 3)": list(variant_rows(_EMBEDDING_SIZES)),
        "What layers share (table 4)": list(variant_rows(_SHARING)),
    }
    for title, rows in tables.items():
        print(f"{title}\n")
        print(markdown_table(_HEADER, [_cells(*row, bert_large) for row in rows]), end="\n\n")

    rows = itertools.chain.from_iterable(tables.values())
    differing = {_size(name): figure for name, count, figure in rows if not agrees(count, figure)}
    for size, figure in differing.items():
        print(f"{size}: {_DEPARTURES.get(size, f'does not round to {figure}M, unexplained')}")
    return differing.keys() <= _DEPARTURES.keys()


def _size(preset: str) -> str:
    return preset.removesuffix("_v1").removesuffix("_v2")


def _cells(name: str, count: ParameterCount, figure: int, bert_large: ParameterCount) -> list[str]:
    parts = (count.embedding, count.blocks, count.pooler, count.heads, count.total, count.in_paper)
    return [
        name,
        *(f"{part:,}" for part in parts),
        f"{figure}M" if agrees(count, figure) else f"{figure}M (!)",
        f"{count.in_paper / bert_large.in_paper:.3f}",
    ]


@dataclasses.dataclass(frozen=True)
class _NoOptions:
    """The command has no flags."""


def _main(options: _NoOptions) -> None:
    del options
    if not report():
        raise SystemExit(1)


if __name__ == "__main__":
    command_line.run(_NoOptions, _main)
