"""Each command's work: wires data, models, training, evaluation and export."""
