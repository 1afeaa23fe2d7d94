"""Where outcomes are kept."""
