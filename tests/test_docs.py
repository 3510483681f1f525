"""What `mkdocs build --strict` does not check: that the references of the site are complete."""

import dataclasses
import pkgutil
import re
import runpy

import albert_tf
from albert_tf.data.fine_tuning.tables import TABLE_FORMATS, table_format_names
from albert_tf.data.fine_tuning.task_table import TASKS
from albert_tf.options.export_forms import FORMS
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.optimizers import OPTIMIZERS
from tests.helpers import ROOT


def test_every_public_name_is_in_the_api_reference():
    pages = "".join(path.read_text() for path in (ROOT / "docs" / "site" / "api").glob("*.md"))
    documented = re.findall(r"^::: albert_tf\.(\w+)$", pages, re.MULTILINE)
    assert sorted(documented) == sorted(albert_tf.__all__)


def test_every_name_in_the_api_reference_exists():
    pages = "".join(path.read_text() for path in (ROOT / "docs" / "site" / "api").glob("*.md"))
    for name in re.findall(r"^::: (.+)$", pages, re.MULTILINE):
        assert pkgutil.resolve_name(name)


def test_every_optimizer_is_in_the_api_reference():
    page = (ROOT / "docs" / "site" / "api" / "optimizers.md").read_text()
    documented = {pkgutil.resolve_name(name) for name in re.findall(r"^::: (.+)$", page, re.M)}
    assert documented >= {type(row.make(0.1)) for row in OPTIMIZERS.values()}


def test_every_flag_is_in_the_command_reference(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["commands.py", str(tmp_path)])
    runpy.run_path(str(ROOT / "docs" / "site" / "commands.py"), run_name="__main__")
    page = (tmp_path / "albert-classify.md").read_text()
    flags = re.findall(r"^`--(\w+)` ", page, re.MULTILINE)
    names = [field.name for field in dataclasses.fields(FineTuningOptions)]
    assert sorted(flags) == sorted(names)
    assert "\n`--eval_batch_size` integer, from 1 to 1,048,576, default `64` {" in page
    assert "python run_classifier.py" in page
    assert len(list(tmp_path.iterdir())) == 6


def test_the_formats_of_tables_are_those_that_are_read():
    page = (ROOT / "docs" / "fine_tuning.md").read_text()
    for one in TABLE_FORMATS:
        suffixes = ", ".join(f"`{suffix}`" for suffix in one.suffixes)
        (row,) = re.findall(rf"^\| {re.escape(suffixes)}(?:, or .*)? \| .* \|$", page, re.MULTILINE)
        assert (f"pip install 'albert-tf[{one.extra}]'" in row) == (one.extra is not None)
    assert f"({table_format_names()})" in (ROOT / "README.md").read_text()


def test_the_page_lists_the_tasks_and_their_submissions():
    page = (ROOT / "docs" / "fine_tuning.md").read_text()
    for task in TASKS.values():
        if not task.sets:
            continue
        (row,) = re.findall(rf"^\| {task.name} \|.*$", page, re.MULTILINE | re.IGNORECASE)
        files = [f"`{submission.file}`" for submission in task.submissions.values()]
        assert row.endswith(f" | {', '.join(files)} |")


def test_the_page_lists_the_forms_of_exported_models():
    page = (ROOT / "docs" / "serving.md").read_text()
    listed = re.findall(r"^\| `--export_format=(.*)", page, re.MULTILINE)
    expected = []
    for form, facts in FORMS.items():
        folders = ", ".join(f"`{name}/<n>/`" for name in facts.folders)
        weights = ", ".join(f"`{name}`" for name in facts.weights)
        needs = f"`pip install 'albert-tf[{form}]'`" if facts.packages else ""
        names = ", ".join(f"`{name}`" for name in facts.files)
        cells = [facts.runtime, folders, names, weights, needs]
        expected.append(
            f"{form}`" + "".join(f" | {cell}" if cell else " |" for cell in cells) + " |"
        )
    assert listed == expected


def test_the_picture_of_the_readme_is_that_of_the_configs(capsys):
    runpy.run_module("docs.images.architecture", run_name="__main__")
    assert (ROOT / "docs" / "images" / "architecture.svg").read_text() == capsys.readouterr().out


def test_the_map_names_files_that_exist():
    names = re.findall(r"`([\w/]+\.py)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(names) > 30
    rooms = ("albert_tf", "benchmarks", "tests")
    files = [path for room in rooms for path in (ROOT / room).glob("**/*.py")]
    missing = [name for name in names if not any(path.match(name) for path in files)]
    assert not missing


def test_what_one_reads_before_a_change_exists_and_has_about_as_many_lines():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text.partition("| what | read (lines) |")[2].partition("\n\n")[0]
    named = re.findall(r"`([\w/]+\.py)` \((\d+)\)", table)
    assert len(named) >= len(table.splitlines()) - 2  # the ends of the header, and the line below
    for name, count in named:
        lines = len((ROOT / "albert_tf" / name).read_text().splitlines())
        assert abs(lines - int(count)) < lines / 5, f"{name}: {lines} lines"
