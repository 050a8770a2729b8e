"""What people look at: maps, contact sheets, plots."""
