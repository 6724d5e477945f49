"""What the metadata log of the cluster says, and how it is changed: topics, settings, ACLs, quotas, users."""
