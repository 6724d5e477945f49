"""Reading for `dump`, `seek`, the catalog and exports: targets, selections, log files and their parts, rows, counts."""
