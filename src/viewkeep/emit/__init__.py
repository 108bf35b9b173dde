"""Plan → SQL, one CTE an operator, in the dialect of the engine."""
