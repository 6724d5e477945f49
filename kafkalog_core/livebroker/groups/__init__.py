"""What a live broker stores of groups: `__consumer_offsets`, share groups, and the settings of groups."""
