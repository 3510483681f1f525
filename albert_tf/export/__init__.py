"""Exports trained models in all forms of `FORMS`, and reusable encoders."""

from albert_tf.export.exporter import export
from albert_tf.export.reusable import export_reusable
from albert_tf.export.saved_models import ExportedModel

__all__ = ["ExportedModel", "export", "export_reusable"]
