"""Exports trained models: SavedModels, files for LiteRT, reusable encoders."""

from albert_tf.export.exporter import ExportDetails, export
from albert_tf.export.ids_model import ExportedModel
from albert_tf.export.reusable import export_reusable

__all__ = ["ExportDetails", "ExportedModel", "export", "export_reusable"]
