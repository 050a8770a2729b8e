"""Training: families of towers, the objective, stages, checkpoints, export. Needs the extra ``[train]``."""
