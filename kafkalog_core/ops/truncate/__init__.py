"""`truncate`: ends a log at damage, at an offset, or where a broker's start would end it (`as_broker`)."""
