"""Modules that rules of several groups share. Nothing in this package is a rule."""
