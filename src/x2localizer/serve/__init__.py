"""Live: a service that follows many cameras at once, and keeps what it has said (needs the extra [serve])."""
