"""Images of local pods: made from Debian packages by recipes."""
