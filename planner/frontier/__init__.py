"""Training at the frontier: the idealised theory of "Data movement limits to frontier model training" (arXiv 2411.01137)."""
