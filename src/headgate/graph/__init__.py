"""What the queries are: streams, operators as immutable data, sharing of equal subgraphs."""
