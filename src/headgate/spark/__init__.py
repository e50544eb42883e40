"""Everything on Spark: the session, Catalyst's types, lanes, epochs, hosts, checkpoints and publishing."""
