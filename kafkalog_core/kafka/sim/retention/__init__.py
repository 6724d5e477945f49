"""Retention as each release does it: `rules` has the policies and one check of a log, `forecast` the checks to come."""
