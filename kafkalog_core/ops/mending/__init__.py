"""Mending the text files of a log directory: one module a kind of file, each a pure decision about one file."""
