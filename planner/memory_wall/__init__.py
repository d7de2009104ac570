"""The memory wall: what models need and what accelerators have, from first principles (Gholami et al., arXiv 2403.14123)."""
