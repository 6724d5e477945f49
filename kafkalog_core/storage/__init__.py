"""Files and directories: reading everything, tolerantly."""
