"""Rolling: where a log begins new segments, and the same log in segments of other sizes."""
