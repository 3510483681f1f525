"""Adds the repository's pages to the site, at their paths in the repository."""

import pathlib
import re
from typing import Any

import nbconvert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_ROOT = pathlib.Path(__file__).parents[2]
_PAGES = ("*.md", "docs/*.md", "examples/*/*.md", "benchmarks/*.md")
_NOTEBOOKS = "examples/*/*.ipynb"
_COMMANDS = _ROOT / "build" / "commands"
# The target of a link in Markdown, without its anchor
_LINK = re.compile(r"\]\(([^)#:\s]+)")


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Adds the pages, the generated pages of the commands, and every file that a page links to."""
    pages = [path for pattern in _PAGES for path in sorted(_ROOT.glob(pattern))]
    linked = {
        (page.parent / link).resolve() for page in pages for link in _LINK.findall(page.read_text())
    }
    for path in pages:
        files.append(_file(config, path))
    for path in sorted(linked.difference(pages)):
        if path.is_file() and path.is_relative_to(_ROOT) and path.suffix != ".ipynb":
            files.append(_file(config, path))
    for path in sorted(_COMMANDS.glob("*.md")):
        files.append(File.generated(config, f"commands/{path.name}", abs_src_path=str(path)))
    for path in sorted(_ROOT.glob(_NOTEBOOKS)):
        text, _ = nbconvert.MarkdownExporter().from_filename(path)
        name = path.relative_to(_ROOT).with_suffix(".md").as_posix()
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Makes links to notebooks links to their pages."""
    return markdown.replace(".ipynb)", ".md)")


def _file(config: MkDocsConfig, path: pathlib.Path) -> File:
    file = File.generated(config, path.relative_to(_ROOT).as_posix(), abs_src_path=str(path))
    if path.suffix not in (".md", ".png", ".svg"):
        file.dest_uri += ".txt"  # browsers show it instead of saving it
    return file
