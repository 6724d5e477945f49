"""What a broker makes of a log at its start: the recovery of segments and partitions, as pure simulations."""
