"""Storage of local clusters: volumes that are folders of this machine, and what claims say."""
