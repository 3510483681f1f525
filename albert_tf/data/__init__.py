"""From raw text and raw files to ids, records and batches; knows no model."""
