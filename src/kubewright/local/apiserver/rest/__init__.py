"""The verbs, generic over `ServedKind`."""
