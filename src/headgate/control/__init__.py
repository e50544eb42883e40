"""Quality of service: what users ask for, whether it is met, and how queries come and go while the system runs."""
