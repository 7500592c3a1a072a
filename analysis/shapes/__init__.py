"""Checks that the params and results of messages have the shape that their revision declares."""
