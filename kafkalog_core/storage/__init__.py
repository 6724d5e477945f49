"""Files and directories: tolerant reading, and in `changing` all that writes."""
