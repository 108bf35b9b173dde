"""SQL text → plan. The only place that rejects SQL."""
