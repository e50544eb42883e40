"""What queries look like to people: the shared graph as data, operators in words, and where boxes are drawn."""
