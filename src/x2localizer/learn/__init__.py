"""Training: backbones, GeoAdapter, towers, objective. Needs the extra ``[train]``; nothing else may import it."""
