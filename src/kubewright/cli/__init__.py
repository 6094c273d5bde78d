"""The command line: kubectl's habits."""
