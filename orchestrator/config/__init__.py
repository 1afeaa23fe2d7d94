"""What people write: fleets, speculation, policies; read with line numbers."""
