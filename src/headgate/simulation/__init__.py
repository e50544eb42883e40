"""The same scheduling code in virtual time, over modelled operators."""
