"""Custom resources: their definitions, their schemas, and the kinds that come of them."""
