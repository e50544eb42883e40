"""SQL cases as text files, each checked against Spark SQL and against Headgate."""
