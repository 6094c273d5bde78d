"""The nouns of Kubernetes: names, metadata, conditions, errors, custom resources. No I/O."""
