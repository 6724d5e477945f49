"""The HTML report of `verify`: its data, texts, charts and tables, in one page."""
