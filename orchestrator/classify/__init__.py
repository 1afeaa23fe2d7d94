"""From a request body to its features and class; pure."""
