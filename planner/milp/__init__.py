"""The proof: presolve, mixed-integer program in Pyomo, outer approximation with HiGHS."""
