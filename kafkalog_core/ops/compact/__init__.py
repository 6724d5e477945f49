"""`compact`: what the cleaner would do (`simulation`, `forecast`), and cleaning offline (`planning`, `new_log_dir`)."""
