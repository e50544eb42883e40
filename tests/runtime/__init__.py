"""Tests of the network inside one worker."""
