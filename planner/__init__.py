"""Plan how to train large models: the best parallelisation, with a proof."""

__version__ = "0.1.0"
