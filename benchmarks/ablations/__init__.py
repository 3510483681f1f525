"""The paper's ablations at a scale that two cores can train."""
