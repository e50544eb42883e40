"""Functions of dates and times, in the session's time zone."""
