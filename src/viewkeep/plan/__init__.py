"""The relational algebra: what a view means, before and after it is made incremental."""
