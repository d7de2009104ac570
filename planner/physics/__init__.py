"""What a training step costs: time and memory as expressions of the decisions."""
