"""Draws BERT and ALBERT side by side, to scale: areas are numbers of parameters.

Usage, in a checkout:
    python -m docs.images.architecture > docs/images/architecture.svg
"""

from collections.abc import Iterator

from albert_tf.config import AlbertConfig
from benchmarks.parameters import ParameterCount, count_parameters

_MODELS = {"BERT-base": "bert_base", "ALBERT-base": "base_v2"}

_PAGE_WIDTH, _PAGE_HEIGHT = 720, 668
_SHOWN_WIDTH = 480  # in pixels; a phone shows less, so no letter is small
_LEFTS = (24, 352)
_WIDTH = 230  # of the hidden size
_PARAMETERS = 1060  # per unit of area
_GAP = 4

# The browser chooses the colours.
_STYLE = """
  svg { --page: #ffffff; --ink: #1f2328; --soft: #59636e; --block: #2f6fde; --table: #b8500f;
        --pooler: #6e7681 }
  @media (prefers-color-scheme: dark) {
    svg { --page: #161b22; --ink: #f0f6fc; --soft: #a9b4c0; --block: #3a76e0; --table: #bd5a1d;
          --pooler: #8b949e }
  }
  text { font: 22px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: var(--ink) }
  .title { font-size: 30px; font-weight: 700 }
  .soft { fill: var(--soft) }
  .on { fill: #ffffff }
  .end { text-anchor: end }
  .page { fill: var(--page) }
  .block { fill: var(--block) }
  .table { fill: var(--table) }
  .pooler { fill: var(--pooler) }
  .again { fill: none; stroke: var(--block); stroke-width: 2; stroke-dasharray: 7 5 }
  .loop { fill: none; stroke: var(--ink); stroke-width: 3 }
  .head { fill: var(--ink) }
"""


def main() -> None:
    """Prints the picture."""
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_SHOWN_WIDTH}" '
        f'viewBox="0 0 {_PAGE_WIDTH} {_PAGE_HEIGHT}">\n<style>{_STYLE}</style>'
    )
    print(_box("page", 0, 0, _PAGE_WIDTH, _PAGE_HEIGHT, radius=12))
    for left, (name, preset) in zip(_LEFTS, _MODELS.items(), strict=True):
        config = AlbertConfig.from_preset(preset)
        count = count_parameters(config)
        print("\n".join(_draw(left, name, config, count)))
    caption = f"Areas are to scale. The grey line is the pooler, {_millions(count.pooler)}."
    print(_text(_LEFTS[0], _PAGE_HEIGHT - 22, caption, "soft"), "</svg>", sep="\n")


def _draw(left: int, name: str, config: AlbertConfig, count: ParameterCount) -> Iterator[str]:
    """Yields the parts of a model from the last one to the first one."""
    layers, size = config.num_hidden_layers, config.embedding_size
    yield _text(left, 50, name, "title")
    yield _text(left, 82, f"{_millions(count.total - count.heads)} parameters", "soft")
    y = 104.0
    yield _box("pooler", left, y, _WIDTH, count.pooler / _PARAMETERS / _WIDTH)
    top = y = y + count.pooler / _PARAMETERS / _WIDTH + _GAP
    of_block = count.blocks // (1 if count.shares else layers)
    height, right = of_block / _PARAMETERS / _WIDTH, left + _WIDTH
    for layer in range(layers, 0, -1):
        base = y + height / 2 + 8
        if count.shares and layer > 1:
            yield _box("again", left, y, _WIDTH, height)
            yield _text(left + 10, base, "the same again", "soft")
        else:
            yield _box("block", left, y, _WIDTH, height)
            yield _text(left + 10, base, "block" if count.shares else f"block {layer}", "on")
            yield _text(right - 10, base, _millions(of_block), "on end")
        y += height + _GAP
    if count.shares:
        yield _loop(right + 10, top + 14, y - _GAP - height / 2, layers)
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    tables = size * (rows + 2)  # and the two vectors of the normalisation
    lines = [f"embedding {_millions(count.embedding)}", f"{config.vocab_size:,} × {size}"]
    width = _WIDTH * size / config.hidden_size
    if projection := count.embedding - tables:
        lines.append(f"and {size} × {config.hidden_size}")
        # To scale it would hardly be seen.
        yield _box("table", left, y, _WIDTH, max(2, projection / _PARAMETERS / _WIDTH))
        y += 2 + _GAP
    yield _box("table", left, y, width, tables / _PARAMETERS / width)
    x, kind = (left + 10, "on") if width == _WIDTH else (left + width + 10, "")
    for number, line in enumerate(lines):
        yield _text(x, y + 34 + 29 * number, line, kind)


def _millions(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M"


def _box(kind: str, x: float, y: float, width: float, height: float, radius: int = 0) -> str:
    place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" rx="{radius}"'
    return f'<rect class="{kind}" {place}/>'


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{text}</text>'


def _loop(x: float, top: float, bottom: float, times: int) -> str:
    """Returns an arrow from the last layer to the first one, with how often the block is applied."""
    line = f'<path class="loop" d="M {x} {top:.0f} h 22 V {bottom:.0f} h -14"/>'
    head = f'<path class="head" d="M {x - 2} {bottom:.0f} l 12 -8 v 16 z"/>'
    return line + head + _text(x + 32, (top + bottom) / 2 + 10, f"× {times}", "title")


if __name__ == "__main__":
    main()
