"""Files of fine-tuning tasks to examples, and examples to ids; the table of tasks."""
