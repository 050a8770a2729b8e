"""What comes in: video, aerial imagery, recorded tracks."""
