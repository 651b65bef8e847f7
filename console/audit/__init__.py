"""Reading and proving what happened: the audit pages, exports, and the verifier of the hash chains."""
