"""Work over targets: which files, in what order, by how many processes, and what is reported. It knows no verb."""
