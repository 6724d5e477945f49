"""Work over targets: which files, in what order, by how many processes, and what is reported. It imports no verb."""
