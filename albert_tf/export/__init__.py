"""Exports trained models: SavedModels, files for LiteRT, reusable encoders."""

from albert_tf.export.exportable import ExportDetails
from albert_tf.export.exported_model import ExportedModel
from albert_tf.export.exporter import export
from albert_tf.export.saved_models.reusable import export_reusable

__all__ = ["ExportDetails", "ExportedModel", "export", "export_reusable"]
