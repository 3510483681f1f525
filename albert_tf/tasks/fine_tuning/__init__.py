"""Fine-tuning: one run for all tasks; a task decides features, model, loss, predictions and export."""
