"""Views over tables on a lake: Spark computes, the tables' own logs say what changed and commit what is new."""
