"""What the forms for other runtimes have in common, without these runtimes."""

import sys

import pytest

from albert_tf.errors import InputError
from tests.export.kinds import export_kind, make_model


@pytest.mark.parametrize(("form", "missing"), [("openvino", "nncf"), ("onnx", "tf2onnx")])
def test_missing_package_is_named_with_the_command_that_installs_it(
    form, missing, tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, missing, None)
    message = rf"^export_format={form}: needs .*{missing}.*: pip install 'albert-tf\[{form}\]'$"
    with pytest.raises(InputError, match=message):
        export_kind("classifier", make_model("classifier"), tokenizer, str(tmp_path), form)
    assert list(tmp_path.iterdir()) == []
