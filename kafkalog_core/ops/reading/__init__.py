"""From files to rows: what `dump` and its relatives read, in the order and form in which it is asked for."""
