"""Sources, one file each: `records(data, counts) -> Iterator[Sample]`, all that a data set holds, in its order.

A sample has its captions as they are written and its picture's place; its size is found later. What a source drops it
counts. A source whose files are shards already has `parts(data) -> list[str]` as well, and its
`records(data, counts, part)` gives the samples of one of them.
"""
