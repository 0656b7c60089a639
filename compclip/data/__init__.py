"""Data sets as training reads them: samples, shards, pictures, partners."""
