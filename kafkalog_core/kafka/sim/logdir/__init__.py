"""The files of a log directory as a broker reads them: checkpoints, property files, segments, bounds of a log."""
