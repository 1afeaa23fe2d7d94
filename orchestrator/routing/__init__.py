"""From features and policy to a decision; pure."""
