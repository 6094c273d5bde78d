"""Sessions of kubectl and helm, and what they print on the real server."""
