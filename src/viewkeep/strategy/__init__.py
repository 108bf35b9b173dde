"""How a view is stored, which program refreshes it, and which program is chosen and why."""
