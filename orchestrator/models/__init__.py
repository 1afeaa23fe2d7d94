"""Builds the demo models."""
