"""Who runs next: statistics, charts, cuts, policies, classes, selection. Decides, never executes."""
