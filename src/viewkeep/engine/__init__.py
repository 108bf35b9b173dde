"""Engine adapters: a handful of calls each. SQL is never built inside them, only run."""
