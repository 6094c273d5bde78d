"""Schemas of kinds in one compiled view, and bodies read by them."""
