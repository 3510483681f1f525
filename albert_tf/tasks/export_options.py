"""The options of every task that exports a model."""

import dataclasses

from albert_tf.errors import FlagError, name_flags
from albert_tf.export.exporter import Form, Weights
from albert_tf.export.runtimes import check_form
from albert_tf.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The folder, the format and the weights of an export."""

    export_dir: str | None = option("Folder to export the model to.", None)
    export_format: Form = option(
        "SavedModels, or files for LiteRT, OpenVINO or ONNX Runtime. The last two need the extras "
        "openvino and onnx.",
        "saved_model",
    )
    export_weights: Weights | None = option(
        "Data type of the exported matrices: int8, or float16 (LiteRT only). Default: that of the "
        "model's computations.",
        None,
    )

    @property
    def calibrates(self) -> bool:
        """Whether the export needs examples."""
        return self.export_format == "openvino" and self.export_weights == "int8"

    def check_export(self) -> None:
        """Checks that the options go together.

        Raises:
            FlagError: one is given without `--export_dir`, two contradict each other, or packages for the
                form are missing.
        """
        for name, default in (("export_format", "saved_model"), ("export_weights", None)):
            value = getattr(self, name)
            if value != default and not self.export_dir:
                raise FlagError(f"--{name}={value}: expected --export_dir")
        with name_flags():
            check_form(self.export_format, self.export_weights)
