"""`compact`: what the log cleaner would do (`simulation`, `forecast`), and cleaning offline (`planning`)."""
