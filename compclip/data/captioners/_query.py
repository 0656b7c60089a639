"""What models that chat are asked for: CLIC's query."""

# CLIC (arXiv:2505.24424), Figure 3, as printed
QUERY = (
    "Can you please describe this image in a long and detailed paragraph? Please keep your descriptions factual "
    "and terse but complete. DO NOT add any unnecessary speculation about the things that are not part of the "
    "image. The description should be purely factual, with no subjective speculation."
)
QUERY_TOKENS = 512  # of an answer to it
