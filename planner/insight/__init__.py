"""What a plan or a missing plan means: what would change it, what a wish costs, what makes a problem solvable."""
