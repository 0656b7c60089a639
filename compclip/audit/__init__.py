"""Audits of training texts: how far they are told from captions without any picture."""
