"""Authorization: what a client may do, and the requests that change ACLs and SCRAM users."""
