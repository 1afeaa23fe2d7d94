"""Benchmarks of the project itself."""
